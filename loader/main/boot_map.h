/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a kernel that boots from nothing is told of memory, and where it goes. */
#ifndef GO_BOOT_MAP_H
#define GO_BOOT_MAP_H

#include "../core/memtype.h"
#include "machine.h"

struct place {
	u64 base;
	u64 bytes;
	const char *kind; /* of its memory, for people */
};

/*
 * With memtype= every range is told as what it is and the kernel chooses.
 * Without, DRAM is hidden and NVRAM is told as ordinary memory, so that any
 * kernel lives in NVRAM only. The block is reserved in either case.
 */
void boot_map(const struct machine *machine, struct memtype memtype,
	      struct map *map);

/* The range that kernel and initrd are to be loaded into. */
struct place boot_place(const struct machine *machine, struct memtype memtype);

#endif /* GO_BOOT_MAP_H */
