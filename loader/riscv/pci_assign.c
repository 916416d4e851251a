/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "pci_assign.h"

#include "../../format/rem_pwr.h"
#include "../hw/pci.h"
#include "board.h"

/* The 16550 of the power monitor's wire: QEMU's pci-serial. */
#define WIRE_VENDOR 0x1b36
#define WIRE_DEVICE 0x0002

#define BAR_IO 0x1u
#define BAR_64 0x4u

#define HEADER_MASK 0x7fu
#define HEADER_BRIDGE 1u
#define BUSES \
	0x18 /* the bus of a bridge, the one behind it, the last one there */
#define IO_WINDOW 0x1c /* 16 bits */
#define MEMORY_WINDOW 0x20
#define PREFETCH_WINDOW 0x24
#define IO_WINDOW_NONE 0x00f0u
#define WINDOW_NONE 0x0000fff0u /* its end is before its begin */
#define WINDOW_UNIT (1ull << 20)
#define BUS_MAX 255u
#define DEPTH_MAX 16u

/* A bridge whose buses are being numbered. */
struct bridge {
	u32 bdf;
	u32 bus; /* behind it */
	u64 begin;
};

static u64 next_memory;
static u32 last_bus;
static struct bridge path[DEPTH_MAX];
static u32 depth;

/* The next address for a BAR of that size; 0: there is no room. */
static u64 take(u32 log2_bytes)
{
	u64 end = board.pci_memory + board.pci_memory_bytes;
	u64 at;

	if (log2_bytes >= 32 ||
	    !align_up(next_memory, 1ull << log2_bytes, &at) ||
	    !range_inside(at, 1ull << log2_bytes, board.pci_memory,
			  end - board.pci_memory))
		return 0;
	next_memory = at + (1ull << log2_bytes);
	return at;
}

static void assign_bars(const struct pci_function *function)
{
	u64 sizes = pci_bar_sizes(function);
	u16 command = pci_read16(function->bdf, PCI_COMMAND);

	for (u32 n = 0; n < PCI_BARS; n++) {
		u32 bits = sizes >> (8 * n) & 0xff;
		u32 old = pci_read32(function->bdf, PCI_BAR(n));
		u64 at;

		if (!bits || old & BAR_IO)
			continue;
		at = take(bits);
		if (!at)
			continue;
		pci_write32(function->bdf, PCI_BAR(n), (u32)at);
		if (old & BAR_64)
			pci_write32(function->bdf, PCI_BAR(n + 1),
				    (u32)(at >> 32));
	}
	pci_write16(function->bdf, PCI_COMMAND, command | PCI_COMMAND_MEMORY);
}

static void number_buses(const struct bridge *bridge, u32 last)
{
	pci_write32(bridge->bdf, BUSES,
		    bridge->bdf >> 8 | bridge->bus << 8 | last << 16);
}

/* Windows of memory are of whole units. */
static void align_window(void)
{
	u64 at;

	if (align_up(next_memory, WINDOW_UNIT, &at))
		next_memory = at;
}

/* Everything behind it is known. */
static void close_bridge(void)
{
	const struct bridge *bridge = &path[--depth];
	u32 window = WINDOW_NONE;

	align_window();
	if (next_memory > bridge->begin)
		window = (u32)(bridge->begin >> 16) |
			 (u32)((next_memory - 1) & 0xfff00000u);
	pci_write32(bridge->bdf, MEMORY_WINDOW, window);
	number_buses(bridge, last_bus);
}

/* The functions behind it are the next ones that are found. */
static void open_bridge(const struct pci_function *function)
{
	u16 command = pci_read16(function->bdf, PCI_COMMAND);

	if (depth == DEPTH_MAX || last_bus == BUS_MAX)
		return;
	align_window();
	path[depth] = (struct bridge){ function->bdf, ++last_bus, next_memory };
	number_buses(&path[depth++], BUS_MAX);
	pci_write16(function->bdf, IO_WINDOW, IO_WINDOW_NONE);
	pci_write32(function->bdf, PREFETCH_WINDOW, WINDOW_NONE);
	/* Until its end is known. */
	pci_write32(function->bdf, MEMORY_WINDOW, WINDOW_NONE);
	pci_write16(function->bdf, PCI_COMMAND,
		    command | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static void assign(const struct pci_function *function, void *unused)
{
	u32 bus = function->bdf >> 8;

	(void)unused;
	while (depth && path[depth - 1].bus != bus)
		close_bridge();
	if (function->header_type & HEADER_MASK & ~HEADER_BRIDGE)
		return;
	if (!bus && function->vendor == WIRE_VENDOR &&
	    function->device == WIRE_DEVICE) {
		pci_write32(function->bdf, PCI_BAR(0), REM_PWR_PORT);
		pci_write16(function->bdf, PCI_COMMAND, PCI_COMMAND_IO);
		return;
	}
	/* A host bridge has none. */
	if (function->class_revision >> 16 != 0x0600)
		assign_bars(function);
	if ((function->header_type & HEADER_MASK) == HEADER_BRIDGE)
		open_bridge(function);
}

void pci_assign(void)
{
	next_memory = board.pci_memory;
	if (!board.ecam || !board.pci_memory_bytes)
		return;
	pci_scan(assign, NULL);
	while (depth)
		close_bridge();
}
