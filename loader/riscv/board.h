/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What firmware's device tree tells of the machine. */
#ifndef LOADER_BOARD_H
#define LOADER_BOARD_H

#include "../core/fdt.h"

#define BOARD_HARTS_MAX 64u

struct hart {
	u32 id;
	u32 isa_crc; /* of what the tree says that it can do */
};

/*
 * struct board
 * @map: MAP_RAM and MAP_PMEM; @reserved: what firmware keeps of it
 * @console, @fwcfg, @ecam: registers; 0 = none
 * @pci_ports, @pci_memory: windows of the PCI bus, the latter with equal addresses there
 */
struct board {
	struct fdt fdt;
	struct map map;
	struct map reserved;
	u32 ticks_hz;
	u32 line_bytes; /* of a hart's CBO.FLUSH, at least; 0: one has none */
	u32 harts;
	struct hart hart[BOARD_HARTS_MAX];
	u64 console;
	u64 fwcfg;
	u64 ecam;
	u64 ecam_bytes;
	u64 pci_ports;
	u64 pci_memory;
	u64 pci_memory_bytes;
};

extern struct board board;

/* Paints, or prints that there is no room and halts. */
void board_paint(struct map *map, u64 base, u64 bytes, u32 type);

/* NULL, or what is wrong with the tree. */
const char *board_read(const u8 *tree);

#endif /* LOADER_BOARD_H */
