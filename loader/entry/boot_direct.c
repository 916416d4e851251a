/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Front end for direct boot: PVH's start info and QEMU's fw_cfg.
 */
#include "../../format/rem_fwcfg.h"
#include "../hw/console.h"
#include "../hw/io.h"
#include "../main/front.h"
#include "fwcfg.h"

/* struct hvm_start_info of Xen's public headers, version 1. */
#define START_MAGIC 0x336ec578u
#define START_VERSION 4
#define START_RSDP 32
#define START_MAP 40
#define START_MAP_COUNT 48
#define MAP_ENTRY_BYTES 24
#define MAP_ENTRY_TYPES 13

static const char *const file_name[FRONT_FILES] = {
	[FRONT_KERNEL] = REM_FWCFG_KERNEL,
	[FRONT_INITRD] = REM_FWCFG_INITRD,
	[FRONT_CMDLINE] = REM_FWCFG_CMDLINE,
	[FRONT_PROTECTED] = REM_FWCFG_PROTECTED,
};

static struct front front;

extern const u8 loader_end[]; /* loader.ld: the end of the loader and its data */

static bool file_size(enum front_file file, u32 *ret_bytes)
{
	struct fwcfg_file found;

	if (!fwcfg_find(file_name[file], &found))
		return false;
	*ret_bytes = found.bytes;
	return true;
}

static bool file_read(enum front_file file, u32 offset, void *to, u32 bytes)
{
	struct fwcfg_file found;

	return fwcfg_find(file_name[file], &found) &&
	       fwcfg_read(&found, offset, to, bytes);
}

/* Entries may overlap: the higher type wins, so add them in ascending order. */
static void read_map(const u8 *start)
{
	const u8 *entries = at_phys(get_u64(start + START_MAP));
	u32 count = get_u32(start + START_MAP_COUNT);

	if (count > MAP_ENTRIES_MAX)
		die("firmware's memory map has %u entries, more than %u", count,
		    MAP_ENTRIES_MAX);
	for (u32 type = MAP_RAM; type < MAP_ENTRY_TYPES; type++) {
		for (u32 i = 0; i < count; i++) {
			const u8 *entry = entries + i * MAP_ENTRY_BYTES;

			if (get_u32(entry + 16) != type)
				continue;
			map_paint(&front.map, get_u64(entry),
				  get_u64(entry + 8), type);
		}
	}
}

/*
 * Firmware works in the memory that it hands over, and in what its tables are in. A
 * kernel has to leave the loader alone, which is at the start of DRAM.
 */
static void derive_maps(void)
{
	for (u32 i = 0; i < front.map.count; i++) {
		const struct map_entry *entry = &front.map.entry[i];

		if (entry->type == MAP_RAM || entry->type == MAP_ACPI ||
		    entry->type == MAP_NVS)
			map_paint(&front.firmware, entry->base, entry->bytes,
				  MAP_RAM);
		if (entry->type == MAP_RAM)
			map_paint(&front.free, entry->base, entry->bytes,
				  MAP_RAM);
	}
	map_paint(&front.free, 0, (uintptr_t)loader_end, MAP_HOLE);
}

/* Called by entry_pvh.S. */
_Noreturn void loader_direct(const u8 *start, u64 entry_tsc)
{
	struct fwcfg_file cold;

	console_open();
	if (get_u32(start) != START_MAGIC || !get_u32(start + START_VERSION))
		die("no PVH start info of version 1: start the loader with -kernel");
	if (!fwcfg_open())
		die("no fw_cfg with DMA: this QEMU is not supported");
	read_map(start);
	derive_maps();
	front.entry_tsc = entry_tsc;
	front.rsdp_phys = get_u64(start + START_RSDP);
	front.cold_requested = fwcfg_find(REM_FWCFG_COLD, &cold);
	front.size = file_size;
	front.read = file_read;
	loader_main(&front);
}
