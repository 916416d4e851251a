/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* PCI configuration space in memory (ECAM). */
#include "../hw/io.h"
#include "../hw/pci.h"
#include "board.h"

/* 0 if the window does not have the function. */
static uintptr_t config_at(u32 bdf, u32 offset)
{
	u64 at = (u64)bdf << 12 | (offset & 0xfff);

	return at < board.ecam_bytes ? board.ecam + at : 0;
}

u32 pci_read32(u32 bdf, u32 offset)
{
	uintptr_t at = config_at(bdf, offset & ~3u);

	return at ? read32(at) : 0xffffffffu;
}

u16 pci_read16(u32 bdf, u32 offset)
{
	uintptr_t at = config_at(bdf, offset & ~1u);

	return at ? read16(at) : 0xffffu;
}

u8 pci_read8(u32 bdf, u32 offset)
{
	uintptr_t at = config_at(bdf, offset);

	return at ? read8(at) : 0xffu;
}

void pci_write32(u32 bdf, u32 offset, u32 value)
{
	uintptr_t at = config_at(bdf, offset & ~3u);

	if (at)
		write32(at, value);
}

void pci_write16(u32 bdf, u32 offset, u16 value)
{
	uintptr_t at = config_at(bdf, offset & ~1u);

	if (at)
		write16(at, value);
}
