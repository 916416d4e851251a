/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a front end (direct boot; UEFI later) gives the common part: firmware's
 * memory map, the RSDP, and the user's files. It fills struct front and calls
 * go_main(), which does not return.
 */
#ifndef GO_FRONT_H
#define GO_FRONT_H

#include "../core/interval.h"

enum front_file {
	FRONT_KERNEL,
	FRONT_INITRD,
	FRONT_CMDLINE,
	FRONT_MUTANT,	 /* see mutant.h */
	FRONT_PROTECTED, /* serials of disks, a line each */
	FRONT_FILES,
};

struct front {
	u64 entry_tsc; /* the loader's first instruction */
	u64 rsdp_phys; /* 0 = not told */
	bool cold_asked;
	struct map map; /* firmware's */
	/* Bytes of a file; false if there is none. */
	bool (*size)(enum front_file file, u32 *ret_bytes);
	/* Read @bytes from @offset on; false on any error. */
	bool (*read)(enum front_file file, u32 offset, void *to, u32 bytes);
};

_Noreturn void go_main(const struct front *front);

#endif /* GO_FRONT_H */
