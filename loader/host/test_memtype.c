/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../core/memtype.h"
#include "check.h"

void test_memtype(void)
{
	static const struct {
		const char *cmdline;
		bool given, dram_only;
	} cases[] = {
		{ "", false, false },
		{ " ", false, false },
		{ "console=ttyS0 root=/dev/vda rw", false, false },
		{ "memtype", false, false },
		{ "xmemtype=dram", false, false },
		{ "init=memtype=dram", false, false },
		{ "memtype=", true, false },
		{ "memtype=nvram", true, false },
		{ "memtype=nvram,dram", true, false },
		{ "memtype=dram,nvram", true, false },
		{ "memtype=dram", true, true },
		{ "memtype=dram,dram", true, true },
		{ " quiet\tmemtype=dram quiet", true, true },
		{ "memtype=drams", true, false },
		{ "memtype=dram,", true, false },
		{ "memtype=dra", true, false },
		{ "memtype=dram memtype=nvram", true, false },
		{ "memtype=nvram memtype=dram", true, true },
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct memtype got = memtype_read((const u8 *)cases[i].cmdline);

		CHECK(got.given == cases[i].given, "given: '%s'",
		      cases[i].cmdline);
		CHECK(got.dram_only == cases[i].dram_only, "dram only: '%s'",
		      cases[i].cmdline);
	}
}
