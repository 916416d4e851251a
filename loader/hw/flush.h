/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_FLUSH_H
#define LOADER_FLUSH_H

#include "io.h"

/*
 * Make [at, at + bytes) durable: when this returns, the range is in the
 * persistence domain. Ranges are small.
 */
static inline void flush(const void *at, size_t bytes)
{
	uintptr_t line = (uintptr_t)at & ~(uintptr_t)(LINE_BYTES - 1);

	fence();
	/* Where nothing writes lines back, a kernel promises no image either. */
	for (; LINE_BYTES && line < (uintptr_t)at + bytes; line += LINE_BYTES)
		flush_line(line);
	fence();
}

#endif /* LOADER_FLUSH_H */
