/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_CONSOLE_H
#define LOADER_CONSOLE_H

#include "../core/base.h"

/* COM1, if there is one; without it the functions below have no effect. */
void console_open(void);

/* The next byte received; false if there is none. */
bool console_get(u8 *ret_byte);

/*
 * Print a line after "GO: ". @format knows %s, %u and %x (u32), %lu and %lx
 * (u64), without widths.
 */
void print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print a line and halt. */
_Noreturn void die(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif /* LOADER_CONSOLE_H */
