/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "boot_map.h"

#include "../hw/console.h"

/*
 * The DRAM that stays usable if DRAM is hidden: Linux starts other CPUs in real
 * mode, below 1 MiB. The trampoline of 6.12 takes 7 pages (reserve_real_mode(),
 * which allocates between 64 KiB and 640 KiB). Before that the boot stub uses the
 * last 2 pages of the same range for a while (find_trampoline_placement()). One
 * page is left for a kernel with a larger trampoline. With memtype= the kernel
 * chooses these pages itself.
 */
#define LOW_DRAM_PHYS 0x90000u
#define LOW_DRAM_BYTES 0x8000u

/* The page tables of the entry code end here. */
#define LOW_END (1ull << 32)

static void paint(struct map *map, u64 base, u64 bytes, u32 type)
{
	if (!map_paint(map, base, bytes, type))
		die("no room in the memory map for %lx, %lu bytes", base,
		    bytes);
}

/* Reserved, not removed: Linux would put PCI BARs into a hole. */
static void hide_dram(const struct map *firmware, struct map *map)
{
	for (u32 i = 0; i < firmware->count; i++)
		if (firmware->entry[i].type == MAP_RAM)
			paint(map, firmware->entry[i].base,
			      firmware->entry[i].bytes, MAP_RESERVED);
	if (map_type_at(firmware, LOW_DRAM_PHYS) == MAP_RAM &&
	    map_type_at(firmware, LOW_DRAM_PHYS + LOW_DRAM_BYTES - 1) ==
		    MAP_RAM)
		paint(map, LOW_DRAM_PHYS, LOW_DRAM_BYTES, MAP_RAM);
}

void boot_map(const struct machine *machine, struct memtype memtype,
	      u64 registry_bytes, struct map *map)
{
	const struct map *firmware = &machine->front->map;
	u64 region_end = machine->region_phys + machine->region_bytes;

	*map = *firmware;
	if (!memtype.given)
		hide_dram(firmware, map);
	for (u32 i = 0; i < machine->nvram.count; i++) {
		const struct range *range = &machine->nvram.range[i];

		paint(map, range->base, range->bytes, MAP_PMEM);
		if (memtype.given)
			paint(map, range->base, GO_PAGE_BYTES, MAP_RESERVED);
	}
	if (!memtype.given)
		paint(map, machine->region_phys, machine->region_bytes,
		      MAP_RAM);
	if (machine->key_phys)
		paint(map, machine->key_phys, GO_PAGE_BYTES, MAP_RESERVED);
	if (registry_bytes)
		paint(map, region_end - registry_bytes, registry_bytes,
		      MAP_RESERVED);
	paint(map, machine->region_phys, REM_BLOCK_BYTES, MAP_RESERVED);
	paint(map, machine->region_phys + REM_ACPI_OFFSET, REM_ACPI_BYTES,
	      MAP_ACPI);
}

/* The largest range of DRAM that is free. */
static struct place dram_place(const struct machine *machine)
{
	struct place best = { .kind = "DRAM" };
	struct map map = machine->front->free;

	if (machine->key_phys)
		paint(&map, machine->key_phys, GO_PAGE_BYTES, MAP_HOLE);
	for (u32 i = 0; i < map.count; i++) {
		const struct map_entry *entry = &map.entry[i];
		u64 base = entry->base, end = base + entry->bytes;

		if (end > LOW_END)
			end = LOW_END;
		if (base < end && end - base > best.bytes) {
			best.base = base;
			best.bytes = end - base;
		}
	}
	return best;
}

struct place boot_place(const struct machine *machine, struct memtype memtype,
			u64 registry_bytes)
{
	if (memtype.dram_only)
		return dram_place(machine);
	return (struct place){
		.base = machine->region_phys + REM_BLOCK_BYTES,
		.bytes = machine->region_bytes - REM_BLOCK_BYTES -
			 registry_bytes,
		.kind = "NVRAM",
	};
}
