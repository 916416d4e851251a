/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Words of Linux' command line, as far as the loader needs them. */
#ifndef LOADER_CMDLINE_H
#define LOADER_CMDLINE_H

#include "base.h"

/* As in Linux, words end at any byte up to the space. */
static inline bool cmdline_ends(u8 byte)
{
	return byte <= ' ';
}

/* The end of @text at @at, or NULL if another text is there. */
const u8 *cmdline_after(const u8 *at, const char *text);

/*
 * What follows @name in the last word of a NUL-terminated command line that begins
 * with it, or NULL.
 */
const u8 *cmdline_value(const u8 *cmdline, const char *name);

#endif /* LOADER_CMDLINE_H */
