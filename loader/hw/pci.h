/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* PCI configuration space, and its functions. */
#ifndef LOADER_PCI_H
#define LOADER_PCI_H

#include "../core/base.h"

/* Of each instruction set. bdf: bus << 8 | device << 3 | function, as in REM_DESC_PCI. */
u32 pci_read32(u32 bdf, u32 offset);
u16 pci_read16(u32 bdf, u32 offset);
u8 pci_read8(u32 bdf, u32 offset);
void pci_write32(u32 bdf, u32 offset, u32 value);
void pci_write16(u32 bdf, u32 offset, u16 value);

#define PCI_COMMAND 0x04
#define PCI_COMMAND_IO 0x1u
#define PCI_COMMAND_MEMORY 0x2u
#define PCI_COMMAND_MASTER 0x4u
#define PCI_BAR(n) (0x10u + 4u * (n))
#define PCI_BARS 6

struct pci_function {
	u32 bdf;
	u16 vendor;
	u16 device;
	u32 class_revision;
	u8 header_type;
};

/*
 * Call @visit for each function on bus 0 and behind the bridges that firmware has
 * numbered, in ascending order of device and function.
 */
void pci_scan(void (*visit)(const struct pci_function *function, void *context),
	      void *context);

/*
 * log2 of the size of each BAR, one byte for each from bit 0; 0 = none. The upper
 * half of a 64-bit BAR counts as none. Decoding is off meanwhile; BARs and command
 * register are restored.
 */
u64 pci_bar_sizes(const struct pci_function *function);

/* Offset of the next capability @id after @after (0 = first), 0 = none. */
u32 pci_capability(u32 bdf, u8 id, u32 after);

#endif /* LOADER_PCI_H */
