/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "memtype.h"

static bool is_space(u8 byte)
{
	return byte <= ' ';
}

/* The end of @text at @at, or NULL if another text is there. */
static const u8 *after(const u8 *at, const char *text)
{
	for (; *text; text++)
		if (*at++ != (u8)*text)
			return NULL;
	return at;
}

/* True for "dram" and for "dram,dram", which mean the same to Linux. */
static bool names_dram_only(const u8 *value)
{
	for (;;) {
		value = after(value, "dram");
		if (!value)
			return false;
		if (is_space(*value))
			return true;
		if (*value++ != ',')
			return false;
	}
}

struct memtype memtype_read(const u8 *cmdline)
{
	struct memtype memtype = { .given = false };

	while (*cmdline) {
		const u8 *value = after(cmdline, "memtype=");

		if (value)
			memtype = (struct memtype){
				.given = true,
				.dram_only = names_dram_only(value),
			};
		while (!is_space(*cmdline))
			cmdline++;
		while (*cmdline && is_space(*cmdline))
			cmdline++;
	}
	return memtype;
}
