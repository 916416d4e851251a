/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a kernel for RISC-V is told: a device tree with the memory that it may use, in
 * which the block is reserved. memtype= is obeyed here, not by the kernel.
 */
#include "../main/hand_over.h"

#include "../hw/console.h"
#include "../hw/io.h"
#include "board.h"

_Noreturn void linux_enter(u64 entry, u64 tree_phys);

static void add_dram(const struct machine *machine, struct map *map)
{
	const struct map *all = &machine->front->map;

	for (u32 i = 0; i < all->count; i++)
		if (all->entry[i].type == MAP_RAM)
			board_paint(map, all->entry[i].base,
				    all->entry[i].bytes, MAP_RAM);
}

/* Without memtype= other ranges are storage of programs, which is not touched. */
static void add_nvram(const struct machine *machine, struct memtype memtype,
		      struct map *map)
{
	if (!memtype.given) {
		board_paint(map, machine->region_phys, machine->region_bytes,
			    MAP_RAM);
		return;
	}
	for (u32 i = 0; i < machine->nvram.count; i++)
		board_paint(map, machine->nvram.range[i].base,
			    machine->nvram.range[i].bytes, MAP_RAM);
}

/* The page with a range's stamp is not the kernel's, nor is the end of the region. */
static void leave_out(const struct machine *machine, u64 registry_bytes,
		      struct map *map)
{
	u64 end = machine->region_phys + machine->region_bytes;

	for (u32 i = 0; i < machine->nvram.count; i++)
		if (machine->nvram.range[i].base != machine->region_phys)
			board_paint(map, machine->nvram.range[i].base,
				    GO_PAGE_BYTES, MAP_HOLE);
	if (registry_bytes)
		board_paint(map, end - registry_bytes, registry_bytes,
			    MAP_HOLE);
}

struct place boot_place(const struct machine *machine, struct memtype memtype,
			u64 registry_bytes)
{
	struct place best = { .kind = "DRAM" };

	if (!memtype.dram_only)
		return (struct place){
			.base = machine->region_phys + REM_BLOCK_BYTES,
			.bytes = machine->region_bytes - REM_BLOCK_BYTES -
				 registry_bytes,
			.kind = "NVRAM",
		};
	for (u32 i = 0; i < machine->front->free.count; i++) {
		const struct map_entry *entry = &machine->front->free.entry[i];

		if (entry->bytes > best.bytes) {
			best.base = entry->base;
			best.bytes = entry->bytes;
		}
	}
	return best;
}

void hand_over(const struct machine *machine, struct memtype memtype,
	       u64 registry_bytes, struct linux_boot *boot)
{
	const char *cmdline = at_phys(boot->cmdline_phys);
	struct map map = { 0 };
	const struct fdt_change change = {
		.memory = &map,
		.cmdline = cmdline,
		.initrd_phys = boot->initrd_phys,
		.initrd_bytes = boot->initrd_bytes,
		.block_phys = machine->region_phys,
		.block_bytes = REM_BLOCK_BYTES,
		.region_phys = machine->region_phys,
		.region_bytes = machine->region_bytes,
	};

	if (memtype.given && !memtype.dram && !memtype.nvram)
		die("memtype= names an unknown kind of memory");
	if (memtype.dram)
		add_dram(machine, &map);
	if (memtype.nvram || !memtype.given)
		add_nvram(machine, memtype, &map);
	leave_out(machine, registry_bytes, &map);
	if (!fdt_write(&board.fdt, &change, block_at(machine, REM_TREE_OFFSET),
		       REM_TREE_BYTES))
		die("the device tree does not fit %u bytes", REM_TREE_BYTES);
}

_Noreturn void kernel_enter(const struct machine *machine, u64 load)
{
	linux_enter(load, machine->region_phys + REM_TREE_OFFSET);
}
