/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The memory map of a cold boot: see hand_over(). */
#ifndef LOADER_BOOT_MAP_H
#define LOADER_BOOT_MAP_H

#include "../main/hand_over.h"

void boot_map(const struct machine *machine, struct memtype memtype,
	      u64 registry_bytes, struct map *map);

#endif /* LOADER_BOOT_MAP_H */
