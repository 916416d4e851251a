/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../core/memtype.h"
#include "check.h"

void test_memtype(void)
{
	static const struct {
		const char *cmdline;
		bool given, dram_only, nvram, dram;
	} cases[] = {
		{ "", false, false, false, false },
		{ " ", false, false, false, false },
		{ "console=ttyS0 root=/dev/vda rw", false, false, false,
		  false },
		{ "memtype", false, false, false, false },
		{ "xmemtype=dram", false, false, false, false },
		{ "init=memtype=dram", false, false, false, false },
		{ "memtype=", true, false, false, false },
		{ "memtype=nvram", true, false, true, false },
		{ "memtype=nvram,dram", true, false, true, true },
		{ "memtype=dram,nvram", true, false, true, true },
		{ "memtype=dram", true, true, false, true },
		{ "memtype=dram,dram", true, true, false, true },
		{ " quiet\tmemtype=dram quiet", true, true, false, true },
		{ "memtype=mixed", true, false, false, false },
		{ "memtype=drams", true, false, false, false },
		{ "memtype=dram,", true, false, false, false },
		{ "memtype=dra", true, false, false, false },
		{ "memtype=dram memtype=nvram", true, false, true, false },
		{ "memtype=nvram memtype=dram", true, true, false, true },
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct memtype got = memtype_read((const u8 *)cases[i].cmdline);

		CHECK(got.given == cases[i].given, "given: '%s'",
		      cases[i].cmdline);
		CHECK(got.nvram == cases[i].nvram && got.dram == cases[i].dram,
		      "kinds: '%s'", cases[i].cmdline);
		CHECK(got.dram_only == cases[i].dram_only, "dram only: '%s'",
		      cases[i].cmdline);
	}
}
