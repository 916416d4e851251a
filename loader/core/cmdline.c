/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "cmdline.h"

const u8 *cmdline_after(const u8 *at, const char *text)
{
	for (; *text; text++)
		if (*at++ != (u8)*text)
			return NULL;
	return at;
}

const u8 *cmdline_value(const u8 *cmdline, const char *name)
{
	const u8 *found = NULL;

	while (*cmdline) {
		const u8 *value = cmdline_after(cmdline, name);

		if (value)
			found = value;
		while (!cmdline_ends(*cmdline))
			cmdline++;
		while (*cmdline && cmdline_ends(*cmdline))
			cmdline++;
	}
	return found;
}
