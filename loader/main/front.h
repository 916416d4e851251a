/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a front end (direct boot, UEFI) provides: firmware's memory map, the RSDP, and
 * the user's files. It fills struct front and calls loader_main(), which does not
 * return.
 */
#ifndef LOADER_FRONT_H
#define LOADER_FRONT_H

#include "../core/linux.h"

enum front_file {
	FRONT_KERNEL,
	FRONT_INITRD,
	FRONT_CMDLINE,
	FRONT_PROTECTED, /* serials of disks, a line each */
	FRONT_FILES,
};

struct front {
	u64 entry_tsc; /* the loader's first instruction */
	u64 rsdp_phys; /* 0 = unknown */
	bool cold_requested;
	bool secure;	/* only what is authenticated may run */
	bool measured;	/* firmware has measured itself and the loader */
	struct map map; /* firmware's */
	struct map
		firmware; /* what it may write to at a boot: no image is there */
	struct linux_screen screen;
	struct map free; /* DRAM that a kernel may be loaded into */
	/* Size of a file; false if there is none. */
	bool (*size)(enum front_file file, u32 *ret_bytes);
	/* Read @bytes at @offset; false on any error. */
	bool (*read)(enum front_file file, u32 offset, void *to, u32 bytes);
};

_Noreturn void loader_main(const struct front *front);

#endif /* LOADER_FRONT_H */
