/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "memtype.h"

#include "cmdline.h"

/* True for "dram" and for "dram,dram", which mean the same to Linux. */
static bool names_dram_only(const u8 *value)
{
	for (;;) {
		value = cmdline_after(value, "dram");
		if (!value)
			return false;
		if (cmdline_ends(*value))
			return true;
		if (*value++ != ',')
			return false;
	}
}

struct memtype memtype_read(const u8 *cmdline)
{
	const u8 *value = cmdline_value(cmdline, "memtype=");

	return (struct memtype){
		.given = value,
		.dram_only = value && names_dram_only(value),
	};
}
