/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What each instruction set has its own way for in a cold boot. */
#ifndef LOADER_HAND_OVER_H
#define LOADER_HAND_OVER_H

#include "../core/memtype.h"
#include "machine.h"

struct place {
	u64 base;
	u64 bytes;
	const char *kind; /* of its memory, to print */
};

/* The range that kernel and initrd are to be loaded into. */
struct place boot_place(const struct machine *machine, struct memtype memtype,
			u64 registry_bytes);

/*
 * Write what the kernel is told into the work area of the block. With memtype= each
 * range of memory has its own type, and the kernel chooses. Without it, DRAM is hidden
 * and NVRAM is ordinary memory, so that any kernel uses NVRAM only. The block is
 * reserved in either case, and with memtype= the page at the start of every range,
 * where its stamp is. @registry_bytes at the end of the region are reserved, too.
 */
void hand_over(const struct machine *machine, struct memtype memtype,
	       u64 registry_bytes, struct linux_boot *boot);

/* Enter the kernel that was loaded at @load, after hand_over(). */
_Noreturn void kernel_enter(const struct machine *machine, u64 load);

#endif /* LOADER_HAND_OVER_H */
