/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "pci.h"

#define STATUS 0x06
#define STATUS_CAPABILITIES 0x10u
#define CLASS_REVISION 0x08
#define HEADER_TYPE 0x0e
#define HEADER_MULTIFUNCTION 0x80u
#define HEADER_MASK 0x7fu
#define HEADER_NORMAL 0
#define HEADER_BRIDGE 1
#define SECONDARY_BUS 0x19
#define CAPABILITIES 0x34

#define CLASS_HOST_BRIDGE 0x0600u

#define BAR_IO 0x1u
#define BAR_TYPE_MASK 0x6u
#define BAR_TYPE_64 0x4u

/* 48 capabilities of 4 bytes fill the space: a longer list is a loop. */
#define CAPABILITIES_MAX 48

static bool read_function(u32 bdf, struct pci_function *ret_function)
{
	u32 ids = pci_read32(bdf, 0);

	if ((ids & 0xffff) == 0xffff)
		return false;
	*ret_function = (struct pci_function){
		.bdf = bdf,
		.vendor = (u16)ids,
		.device = (u16)(ids >> 16),
		.class_revision = pci_read32(bdf, CLASS_REVISION),
		.header_type = pci_read8(bdf, HEADER_TYPE),
	};
	return true;
}

static void scan_bus(u32 bus,
		     void (*visit)(const struct pci_function *function,
				   void *context),
		     void *context, u8 *seen)
{
	struct pci_function function;

	/* Avoid an endless recursion if firmware has numbered a bus twice. */
	if (seen[bus])
		return;
	seen[bus] = 1;
	for (u32 device = 0; device < 32; device++) {
		u32 functions = 1;

		for (u32 n = 0; n < functions; n++) {
			u32 bdf = bus << 8 | device << 3 | n;

			if (!read_function(bdf, &function)) {
				if (!n)
					break;
				continue;
			}
			if (!n && function.header_type & HEADER_MULTIFUNCTION)
				functions = 8;
			visit(&function, context);
			if ((function.header_type & HEADER_MASK) ==
			    HEADER_BRIDGE)
				scan_bus(pci_read8(bdf, SECONDARY_BUS), visit,
					 context, seen);
		}
	}
}

void pci_scan(void (*visit)(const struct pci_function *function, void *context),
	      void *context)
{
	static u8 seen[256];

	memset(seen, 0, sizeof(seen));
	scan_bus(0, visit, context, seen);
}

static u32 bars_of(const struct pci_function *function)
{
	switch (function->header_type & HEADER_MASK) {
	case HEADER_NORMAL:
		return PCI_BARS;
	case HEADER_BRIDGE:
		return 2;
	default:
		return 0;
	}
}

/* Bits that stay zero after writing ones give the size. */
static u32 probe(u32 bdf, u32 offset, u32 *ret_old)
{
	u32 mask;

	*ret_old = pci_read32(bdf, offset);
	pci_write32(bdf, offset, 0xffffffffu);
	mask = pci_read32(bdf, offset);
	pci_write32(bdf, offset, *ret_old);
	return mask;
}

static u32 log2_of_mask(u64 mask)
{
	return mask ? (u32)__builtin_ctzll(mask) : 0;
}

u64 pci_bar_sizes(const struct pci_function *function)
{
	u32 bars = bars_of(function);
	u16 command = pci_read16(function->bdf, PCI_COMMAND);
	bool is_host = function->class_revision >> 16 == CLASS_HOST_BRIDGE;
	u64 sizes = 0;

	/* On some boards the same bits of a host bridge decode main memory. */
	if (!is_host)
		pci_write16(function->bdf, PCI_COMMAND,
			    (u16)(command &
				  ~(PCI_COMMAND_IO | PCI_COMMAND_MEMORY)));
	for (u32 n = 0; n < bars; n++) {
		u32 at = n;
		u32 old, high_old;
		u64 mask = probe(function->bdf, PCI_BAR(n), &old);

		if (!mask)
			continue;
		if (mask & BAR_IO) {
			/* The upper 16 bits may be wired to zero. */
			mask = (mask & ~3ull) | 0xffffffffffff0000ull;
		} else if ((mask & BAR_TYPE_MASK) == BAR_TYPE_64 &&
			   n + 1 < bars) {
			n++;
			mask = (mask & ~15ull) |
			       (u64)probe(function->bdf, PCI_BAR(n), &high_old)
				       << 32;
		} else {
			mask &= ~15ull;
		}
		sizes |= (u64)log2_of_mask(mask) << (8 * at);
	}
	if (!is_host)
		pci_write16(function->bdf, PCI_COMMAND, command);
	return sizes;
}

u32 pci_capability(u32 bdf, u8 id, u32 after)
{
	u32 at;

	if (after)
		at = pci_read8(bdf, after + 1);
	else if (pci_read16(bdf, STATUS) & STATUS_CAPABILITIES)
		at = pci_read8(bdf, CAPABILITIES);
	else
		return 0;
	for (u32 i = 0; (at &= 0xfc) && i < CAPABILITIES_MAX; i++) {
		if (pci_read8(bdf, at) == id)
			return at;
		at = pci_read8(bdf, at + 1);
	}
	return 0;
}
