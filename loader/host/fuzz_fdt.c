/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A device tree in a buffer of its own: it is walked, summed up, and written again; what
 * was written is a tree again.
 */
#include <stdlib.h>

#include "../core/fdt.h"

#define ROOM 16384u

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

static void look(const struct fdt_node *node, void *count)
{
	u32 length;
	const u8 *value = fdt_property(node, "reg", &length);
	volatile u8 last;

	if (value && length)
		last = value[length - 1];
	(void)last;
	*(u32 *)count += fdt_has(node, "compatible", "pmem-region") +
			 fdt_disabled(node) + (u32) !!node->parent[0];
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct map map = { 0 };
	const struct fdt_change change = {
		.memory = &map,
		.cmdline = "quiet",
		.initrd_phys = 0x90000000,
		.initrd_bytes = 5,
		.block_phys = 0x80400000,
		.block_bytes = 0x200000,
		.region_phys = 0x80400000,
		.region_bytes = 0x3f000000,
	};
	u8 *tree = malloc(bytes + 1), *out = malloc(ROOM);
	struct fdt fdt, again;
	u32 count = 0, used;

	memcpy(tree, data, bytes);
	map_paint(&map, 0x80400000, 0x3f000000, MAP_RAM);
	if (fdt_open(tree, (u32)bytes, &fdt)) {
		bool whole = fdt_walk(&fdt, look, &count);

		(void)fdt_crc(&fdt);
		used = fdt_write(&fdt, &change, out, ROOM);
		if (used && (!fdt_open(out, used, &again) ||
			     fdt_walk(&again, look, &count) != whole))
			abort();
	}
	free(tree);
	free(out);
	return 0;
}
