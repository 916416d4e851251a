/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_CONSOLE_H
#define GO_CONSOLE_H

#include "../core/base.h"

/* COM1, if there is one; without it everything below does nothing. */
void console_open(void);

/*
 * One line, "GO: " in front. @format knows %s, %u and %x (u32), %lu and
 * %lx (u64), without widths.
 */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Say it, and stop here for ever. */
_Noreturn void die(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif /* GO_CONSOLE_H */
