/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What an instruction set gives the loader:
 *
 * in8() to out32()	ports of devices
 * read_ticks()		a counter that runs while there is power
 * TICKS_PER_MS		so many of its ticks are at least a millisecond
 * relax()		this CPU is only waiting
 * fence()		what comes after it happens after what comes before it
 * LINE_BYTES		of a cache line, or what flush_line() acts on; 0: there is none
 * flush_line()		a cache line to memory
 * halt()		the end
 */
#ifndef LOADER_IO_H
#define LOADER_IO_H

#ifdef __riscv
#include "../riscv/io.h"
#else
#include "../x86/io.h"
#endif

/* Physical addresses are the loader's addresses. */
static inline void *at_phys(u64 phys)
{
	return (void *)(uintptr_t)phys;
}

#endif /* LOADER_IO_H */
