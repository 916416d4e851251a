/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The memory map of a cold boot, and the place of kernel and initrd in it. */
#ifndef LOADER_BOOT_MAP_H
#define LOADER_BOOT_MAP_H

#include "../core/memtype.h"
#include "machine.h"

struct place {
	u64 base;
	u64 bytes;
	const char *kind; /* of its memory, to print */
};

/*
 * With memtype= each range has its own type, and the kernel chooses. Without it,
 * DRAM is hidden and NVRAM is ordinary memory, so that any kernel uses NVRAM only.
 * The block is reserved in either case, and with memtype= the page at the start of
 * every range, where its stamp is. @registry_bytes at the end of the region are
 * reserved, too.
 */
void boot_map(const struct machine *machine, struct memtype memtype,
	      u64 registry_bytes, struct map *map);

/* The range that kernel and initrd are to be loaded into. */
struct place boot_place(const struct machine *machine, struct memtype memtype,
			u64 registry_bytes);

#endif /* LOADER_BOOT_MAP_H */
