/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* PCI configuration space by the ports 0xcf8 and 0xcfc. */
#include "../hw/io.h"
#include "../hw/pci.h"

#define CONFIG_ADDRESS 0xcf8
#define CONFIG_DATA 0xcfc

static void select(u32 bdf, u32 offset)
{
	out32(CONFIG_ADDRESS, 0x80000000u | bdf << 8 | (offset & 0xfc));
}

u32 pci_read32(u32 bdf, u32 offset)
{
	select(bdf, offset);
	return in32(CONFIG_DATA);
}

u16 pci_read16(u32 bdf, u32 offset)
{
	select(bdf, offset);
	return in16((u16)(CONFIG_DATA + (offset & 2)));
}

u8 pci_read8(u32 bdf, u32 offset)
{
	select(bdf, offset);
	return in8((u16)(CONFIG_DATA + (offset & 3)));
}

void pci_write32(u32 bdf, u32 offset, u32 value)
{
	select(bdf, offset);
	out32(CONFIG_DATA, value);
}

void pci_write16(u32 bdf, u32 offset, u16 value)
{
	select(bdf, offset);
	out16((u16)(CONFIG_DATA + (offset & 2)), value);
}
