/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "board.h"

#include "../core/crc32c.h"
#include "../hw/console.h"

/* An address and a size of two cells each. */
#define REG_BYTES 16u
/* Of a PCI bus' window: three cells of its address there, then as above. */
#define WINDOW_BYTES 28u
#define WINDOW_KIND 0x03000000u
#define WINDOW_PORTS 0x01000000u
#define WINDOW_MEMORY 0x02000000u
/* Of the list of reserved memory: an address, a size. */
#define RESERVED_BYTES 16u
/* What CBO.FLUSH can act on: more than a page has no use. */
#define LINE_BYTES_MIN 8u

struct board board;

static const char *wrong;

static void paint_reg(const struct fdt_node *node, struct map *map, u32 type)
{
	u32 bytes;
	const u8 *reg = fdt_property(node, "reg", &bytes);

	for (; reg && bytes >= REG_BYTES; bytes -= REG_BYTES) {
		u64 size = fdt_u64(reg + 8);

		if (size && !map_paint(map, fdt_u64(reg), size, type))
			wrong = "the device tree has too many ranges of memory";
		reg += REG_BYTES;
	}
}

/* The smallest of all harts. */
static void read_line_bytes(const struct fdt_node *node)
{
	u32 bytes, line = 0;
	const u8 *value = fdt_property(node, "riscv,cbom-block-size", &bytes);

	if (value && bytes == 4)
		line = fdt_u32(value);
	if (line < LINE_BYTES_MIN || line > GO_PAGE_BYTES || line & (line - 1))
		line = 0;
	if (!board.harts || line < board.line_bytes)
		board.line_bytes = line;
}

static u64 first_reg(const struct fdt_node *node, u64 *ret_bytes)
{
	u32 bytes;
	const u8 *reg = fdt_property(node, "reg", &bytes);

	if (!reg || bytes < REG_BYTES)
		return 0;
	if (ret_bytes)
		*ret_bytes = fdt_u64(reg + 8);
	return fdt_u64(reg);
}

static bool is_one(const struct fdt_node *node, const char *property, u32 cells)
{
	u32 bytes;
	const u8 *value = fdt_property(node, property, &bytes);

	return value && bytes == 4 && fdt_u32(value) == cells;
}

static void read_root(const struct fdt_node *node)
{
	if (!is_one(node, "#address-cells", 2) ||
	    !is_one(node, "#size-cells", 2))
		wrong = "the device tree has no addresses of 64 bits";
}

static void read_hart(const struct fdt_node *node)
{
	static const char *const what[] = {
		"riscv,isa", "riscv,isa-base", "riscv,isa-extensions",
		"mmu-type",  "compatible",     "riscv,cbom-block-size",
	};
	struct hart *hart = &board.hart[board.harts];
	u32 bytes, crc = CRC32C_BEGIN;
	const u8 *value = fdt_property(node, "reg", &bytes);

	if (!fdt_has(node, "device_type", "cpu") || fdt_disabled(node) ||
	    !value || bytes < 4)
		return;
	if (board.harts == BOARD_HARTS_MAX) {
		wrong = "the machine has more than 64 harts";
		return;
	}
	hart->id = fdt_u32(value + bytes - 4);
	for (u32 i = 0; i < GO_COUNT(what); i++) {
		value = fdt_property(node, what[i], &bytes);
		if (value)
			crc = crc32c_add(crc, value, bytes);
	}
	hart->isa_crc = crc32c_end(crc);
	read_line_bytes(node);
	board.harts++;
}

static void read_cpus(const struct fdt_node *node)
{
	u32 bytes;
	const u8 *value = fdt_property(node, "timebase-frequency", &bytes);

	if (value && bytes == 4)
		board.ticks_hz = fdt_u32(value);
}

static void read_pci(const struct fdt_node *node)
{
	u32 bytes;
	const u8 *window = fdt_property(node, "ranges", &bytes);

	board.ecam = first_reg(node, &board.ecam_bytes);
	for (; window && bytes >= WINDOW_BYTES; bytes -= WINDOW_BYTES) {
		u64 there = fdt_u64(window + 4), here = fdt_u64(window + 12);

		switch (fdt_u32(window) & WINDOW_KIND) {
		case WINDOW_PORTS:
			board.pci_ports = here - there;
			break;
		case WINDOW_MEMORY:
			if (here != there)
				break;
			board.pci_memory = here;
			board.pci_memory_bytes = fdt_u64(window + 20);
			break;
		default:
			break;
		}
		window += WINDOW_BYTES;
	}
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static void read_node(const struct fdt_node *node, void *unused)
{
	u32 bytes;

	(void)unused;
	if (!node->depth)
		read_root(node);
	if (node->depth == 1 && same(node->name, "cpus"))
		read_cpus(node);
	if (node->depth == 2 && same(node->parent, "cpus"))
		read_hart(node);
	if (node->depth == 2 && same(node->parent, "reserved-memory"))
		paint_reg(node, &board.reserved, MAP_RESERVED);
	if (fdt_disabled(node))
		return;
	if (node->depth == 1 && fdt_has(node, "device_type", "memory"))
		paint_reg(node, &board.map, MAP_RAM);
	if (fdt_has(node, "compatible", "pmem-region"))
		paint_reg(node, &board.map,
			  fdt_property(node, "volatile", &bytes) ? MAP_RAM :
								   MAP_PMEM);
	if (!board.console && fdt_has(node, "compatible", "ns16550a"))
		board.console = first_reg(node, NULL);
	if (fdt_has(node, "compatible", "qemu,fw-cfg-mmio"))
		board.fwcfg = first_reg(node, NULL);
	if (fdt_has(node, "compatible", "pci-host-ecam-generic"))
		read_pci(node);
}

/* The list that is not a node. */
static void read_reserved(void)
{
	const struct fdt *fdt = &board.fdt;

	for (u32 at = 0; at < fdt->reserve_bytes; at += RESERVED_BYTES) {
		const u8 *entry = fdt->at + fdt->reserve_at + at;
		u64 bytes = fdt_u64(entry + 8);

		if (bytes && !map_paint(&board.reserved, fdt_u64(entry), bytes,
					MAP_RESERVED))
			wrong = "the device tree has too many reserved ranges";
	}
}

void board_paint(struct map *map, u64 base, u64 bytes, u32 type)
{
	if (!map_paint(map, base, bytes, type))
		die("no room in the memory map for %lx, %lu bytes", base,
		    bytes);
}

const char *board_read(const u8 *tree)
{
	u32 bytes = fdt_bytes(tree);

	if (!bytes || !fdt_open(tree, bytes, &board.fdt))
		return "no device tree of version 17";
	if (!fdt_walk(&board.fdt, read_node, NULL))
		return "the device tree is damaged";
	read_reserved();
	if (!wrong && !board.ticks_hz)
		return "the device tree has no frequency of the time";
	return wrong;
}
