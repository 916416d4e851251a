/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "memtype.h"

#include "cmdline.h"

/* Which kinds a list names; none if one of its words is no kind. */
static struct memtype read_list(const u8 *value)
{
	struct memtype memtype = { .given = true };

	for (;;) {
		const u8 *dram = cmdline_after(value, "dram");
		const u8 *nvram = cmdline_after(value, "nvram");

		if (!dram && !nvram)
			break;
		memtype.dram |= dram != NULL;
		memtype.nvram |= nvram != NULL;
		value = dram ? dram : nvram;
		if (cmdline_ends(*value))
			return memtype;
		if (*value++ != ',')
			break;
	}
	return (struct memtype){ .given = true };
}

struct memtype memtype_read(const u8 *cmdline)
{
	const u8 *value = cmdline_value(cmdline, "memtype=");

	struct memtype memtype = { 0 };

	if (!value)
		return memtype;
	memtype = read_list(value);
	/* "dram,dram" means the same to Linux as "dram". */
	memtype.dram_only = memtype.dram && !memtype.nvram;
	return memtype;
}
