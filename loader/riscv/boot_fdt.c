/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Front end for firmware that hands over a device tree, as RISC-V's does; files come
 * from QEMU's fw_cfg.
 */
#include "../../format/rem_fwcfg.h"
#include "../core/crc32c.h"
#include "../entry/fwcfg.h"
#include "../hw/console.h"
#include "../hw/io.h"
#include "../main/front.h"
#include "board.h"
#include "pci_assign.h"
#include "sbi.h"

static const char *const file_name[FRONT_FILES] = {
	[FRONT_KERNEL] = REM_FWCFG_KERNEL,
	[FRONT_INITRD] = REM_FWCFG_INITRD,
	[FRONT_CMDLINE] = REM_FWCFG_CMDLINE,
	[FRONT_PROTECTED] = REM_FWCFG_PROTECTED,
};

struct windows windows;

static struct front front;

extern u64 hart_id; /* entry.S: of the hart that continues */
extern const u8 loader_begin[], loader_end[]; /* loader_riscv.ld */

void go_entry_riscv(void);
_Noreturn void loader_choose(u64 id, const u8 *tree, u64 entry_ticks);
_Noreturn void loader_continue(u64 id, const u8 *tree, u64 entry_ticks);
_Noreturn void loader_fdt(u64 id, const u8 *tree, u64 entry_ticks);
_Noreturn void fault_report(u64 cause, u64 at, u64 value);

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

/*
 * Firmware may write to all DRAM, to its tree, and to what is below the place where it
 * has put the loader, with the rest of the loader's large page.
 */
static void derive_maps(const u8 *tree)
{
	u64 end = ((uintptr_t)loader_end + REM_BLOCK_ALIGN_BYTES - 1) &
		  ~(u64)(REM_BLOCK_ALIGN_BYTES - 1);
	u64 begin = (uintptr_t)loader_begin;

	front.map = board.map;
	for (u32 i = 0; i < board.map.count; i++) {
		const struct map_entry *entry = &board.map.entry[i];

		if (entry->base < begin &&
		    entry->base + entry->bytes > (uintptr_t)loader_begin)
			begin = entry->base;
		if (entry->type != MAP_RAM)
			continue;
		board_paint(&front.firmware, entry->base, entry->bytes,
			    MAP_RAM);
		board_paint(&front.free, entry->base, entry->bytes, MAP_RAM);
	}
	for (u32 i = 0; i < board.reserved.count; i++) {
		const struct map_entry *entry = &board.reserved.entry[i];

		board_paint(&front.firmware, entry->base, entry->bytes,
			    MAP_RAM);
		board_paint(&front.free, entry->base, entry->bytes, MAP_HOLE);
	}
	board_paint(&front.firmware, begin, end - begin, MAP_RAM);
	board_paint(&front.free, begin, end - begin, MAP_HOLE);
	board_paint(&front.firmware, (uintptr_t)tree, board.fdt.bytes, MAP_RAM);
	board_paint(&front.free, (uintptr_t)tree, board.fdt.bytes, MAP_HOLE);
}

/* Called by entry.S, on the stack that is not used otherwise. */
_Noreturn void loader_choose(u64 id, const u8 *tree, u64 entry_ticks)
{
	const char *wrong;
	u64 first;

	crc32c_init(false);
	wrong = board_read(tree);
	windows.console = board.console;
	console_open();
	if (wrong || !board.harts)
		die("%s", wrong ? wrong : "the device tree has no harts");
	first = board.hart[0].id;
	for (u32 i = 1; i < board.harts; i++)
		if (board.hart[i].id < first)
			first = board.hart[i].id;
	if (id == first)
		loader_continue(id, tree, entry_ticks);
	/* Firmware refuses until that hart waits for it. */
	while (sbi_call(SBI_HSM, SBI_HSM_START, first,
			(unsigned long)(uintptr_t)go_entry_riscv,
			(unsigned long)(uintptr_t)tree)
		       .error)
		relax();
	for (;;)
		sbi_call(SBI_HSM, SBI_HSM_STOP, 0, 0, 0);
}

_Noreturn void loader_fdt(u64 id, const u8 *tree, u64 entry_ticks)
{
	struct fwcfg_file cold;

	hart_id = id;
	windows.pci_ports = board.pci_ports;
	windows.ticks_per_ms = board.ticks_hz / 1000 + 1;
	windows.line_bytes = board.line_bytes;
	if (!board.fwcfg || !fwcfg_open())
		die("no fw_cfg with DMA: this machine is not supported");
	pci_assign();
	derive_maps(tree);
	front.entry_tsc = entry_ticks;
	front.cold_requested = fwcfg_find(REM_FWCFG_COLD, &cold);
	front.size = file_size;
	front.read = file_read;
	loader_main(&front);
}

_Noreturn void fault_report(u64 cause, u64 at, u64 value)
{
	die("fault %lu at %lx, address %lx", cause, at, value);
}
