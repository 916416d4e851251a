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

static u64 next_memory;

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

static void assign(const struct pci_function *function, void *unused)
{
	(void)unused;
	if (function->bdf >> 8 || function->header_type & 0x7f)
		return;
	if (function->vendor == WIRE_VENDOR &&
	    function->device == WIRE_DEVICE) {
		pci_write32(function->bdf, PCI_BAR(0), REM_PWR_PORT);
		pci_write16(function->bdf, PCI_COMMAND, PCI_COMMAND_IO);
		return;
	}
	/* A host bridge has none. */
	if (function->class_revision >> 16 != 0x0600)
		assign_bars(function);
}

void pci_assign(void)
{
	next_memory = board.pci_memory;
	if (board.ecam && board.pci_memory_bytes)
		pci_scan(assign, NULL);
}
