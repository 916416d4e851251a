/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the loader knows about the machine; filled step by step. */
#ifndef LOADER_MACHINE_H
#define LOADER_MACHINE_H

#include "../core/acpi.h"
#include "../core/linux.h"
#include "front.h"

#define MACHINE_CPUS_MAX 256

struct machine {
	const struct front *front;
	struct acpi_tables acpi;
	struct ranges nvram;
	struct ranges non_volatile; /* with what firmware uses of it */
	bool nvram_more; /* there are more ranges, which are not in use */
	u64 region_phys; /* the NVRAM range that the block is in */
	u64 region_bytes;
	u32 charge;    /* last status byte of the supply, 0 = none */
	u32 nvdimm;    /* last status of its controller, 0 = none */
	u64 key_phys;  /* the page with the key of images, 0 = none */
	u64 ready_tsc; /* when the machine was described */
	u8 kernel_head[BZ_HEAD_BYTES];
	u32 kernel_file_bytes;
	struct bz_image kernel;
};

/* The block, or what is at @offset in it. */
static inline u8 *block_at(const struct machine *machine, u32 offset)
{
	return (u8 *)(uintptr_t)(machine->region_phys + offset);
}

#endif /* LOADER_MACHINE_H */
