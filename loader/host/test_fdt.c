/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>

#include "../core/fdt.h"
#include "check.h"

#define ROOM 4096u
#define NVRAM 0x80000000ull
#define REGION 0x80400000ull
#define REGION_BYTES 0x3f000000ull
#define BLOCK_BYTES 0x200000ull

/* struct tree - a tree while a test makes it; names and nodes in parts of their own */
struct tree {
	u8 nodes[ROOM];
	u32 used;
	char names[ROOM];
	u32 names_used;
	u8 all[3 * ROOM];
	u32 bytes;
};

static void word(struct tree *tree, u32 value)
{
	put_u32(tree->nodes + tree->used, __builtin_bswap32(value));
	tree->used += 4;
}

static void raw(struct tree *tree, const void *from, u32 bytes)
{
	memcpy(tree->nodes + tree->used, from, bytes);
	tree->used += bytes;
	while (tree->used % 4)
		tree->nodes[tree->used++] = 0;
}

static u32 text_bytes(const char *text)
{
	u32 bytes = 1;

	while (*text++)
		bytes++;
	return bytes;
}

static void begin(struct tree *tree, const char *name)
{
	word(tree, 1);
	raw(tree, name, text_bytes(name));
}

static void end(struct tree *tree)
{
	word(tree, 2);
}

static void property(struct tree *tree, const char *name, const void *value,
		     u32 bytes)
{
	word(tree, 3);
	word(tree, bytes);
	word(tree, tree->names_used);
	raw(tree, value, bytes);
	memcpy(tree->names + tree->names_used, name, text_bytes(name));
	tree->names_used += text_bytes(name);
}

static void text(struct tree *tree, const char *name, const char *value)
{
	property(tree, name, value, text_bytes(value));
}

static void words(struct tree *tree, const char *name, const u64 *value,
		  u32 count)
{
	u64 big[4];

	for (u32 i = 0; i < count; i++)
		big[i] = __builtin_bswap64(value[i]);
	property(tree, name, big, count * 8);
}

static void finish(struct tree *tree)
{
	const u32 header[10] = { FDT_MAGIC,
				 56 + tree->used + tree->names_used,
				 56,
				 56 + tree->used,
				 40,
				 17,
				 16,
				 3,
				 tree->names_used,
				 tree->used };

	memset(tree->all, 0, sizeof(tree->all));
	for (u32 i = 0; i < 10; i++)
		put_u32(tree->all + 4 * i, __builtin_bswap32(header[i]));
	memcpy(tree->all + 56, tree->nodes, tree->used);
	memcpy(tree->all + 56 + tree->used, tree->names, tree->names_used);
	tree->bytes = 56 + tree->used + tree->names_used;
}

/* A machine's, with or without a node of reserved memory. */
static void make(struct tree *tree, bool reserves, const char *seed)
{
	*tree = (struct tree){ 0 };
	begin(tree, "");
	text(tree, "model", "a board");
	begin(tree, "chosen");
	text(tree, "bootargs", "firmware's");
	text(tree, "rng-seed", seed);
	end(tree);
	begin(tree, "memory@40000000");
	text(tree, "device_type", "memory");
	words(tree, "reg", (u64[2]){ 0x40000000, 0x1000000 }, 2);
	end(tree);
	begin(tree, "pmem@80000000");
	text(tree, "compatible", "pmem-region");
	words(tree, "reg", (u64[2]){ NVRAM, 0x40000000 }, 2);
	end(tree);
	if (reserves) {
		begin(tree, "reserved-memory");
		begin(tree, "mmode@80000000");
		words(tree, "reg", (u64[2]){ NVRAM, 0x40000 }, 2);
		end(tree);
		end(tree);
	}
	begin(tree, "cpus");
	begin(tree, "cpu@0");
	text(tree, "status", "disabled");
	end(tree);
	end(tree);
	end(tree);
	word(tree, 9);
	finish(tree);
}

/* struct seen - what a walk has found */
struct seen {
	u32 nodes, memory, pmem, disabled, blocks, reserved;
	u64 memory_base, memory_bytes, region[2];
	char cmdline[64];
	u64 initrd_end;
	bool kept_seed;
};

static void note_memory(const struct fdt_node *node, struct seen *seen)
{
	u32 bytes;
	const u8 *reg = fdt_property(node, "reg", &bytes);

	if (!reg || bytes != 16)
		return;
	seen->memory++;
	seen->memory_base = fdt_u64(reg);
	seen->memory_bytes = fdt_u64(reg + 8);
}

static void note_chosen(const struct fdt_node *node, struct seen *seen)
{
	u32 bytes;
	const u8 *value = fdt_property(node, "bootargs", &bytes);

	if (value && bytes <= sizeof(seen->cmdline))
		memcpy(seen->cmdline, value, bytes);
	seen->kept_seed = fdt_property(node, "rng-seed", &bytes);
	value = fdt_property(node, "linux,initrd-end", &bytes);
	if (value && bytes == 8)
		seen->initrd_end = fdt_u64(value);
}

static void note(const struct fdt_node *node, void *context)
{
	struct seen *seen = context;
	u32 bytes;
	const u8 *region;

	seen->nodes++;
	if (fdt_has(node, "device_type", "memory"))
		note_memory(node, seen);
	seen->pmem += fdt_has(node, "compatible", "pmem-region");
	seen->disabled += fdt_disabled(node);
	if (node->depth == 1 && !strcmp(node->name, "chosen"))
		note_chosen(node, seen);
	if (!strcmp(node->parent, "reserved-memory"))
		seen->reserved++;
	if (!fdt_has(node, "compatible", "remanence,record"))
		return;
	seen->blocks++;
	region = fdt_property(node, "remanence,region", &bytes);
	for (u32 i = 0; region && bytes == 16 && i < 2; i++)
		seen->region[i] = fdt_u64(region + 8 * i);
}

static void test_written(bool reserves)
{
	static struct tree tree;
	struct map map = { 0 };
	struct fdt_change change = {
		.memory = &map,
		.cmdline = "memtype=nvram quiet",
		.initrd_phys = 0x90000000,
		.initrd_bytes = 5,
		.block_phys = REGION,
		.block_bytes = BLOCK_BYTES,
		.region_phys = REGION,
		.region_bytes = REGION_BYTES,
	};
	static u8 out[ROOM];
	struct seen seen = { 0 };
	struct fdt fdt;
	u32 used;

	map_paint(&map, REGION, REGION_BYTES, MAP_RAM);
	make(&tree, reserves, "one");
	CHECK(fdt_open(tree.all, tree.bytes, &fdt), "a tree is opened");
	CHECK(fdt_walk(&fdt, note, &seen), "and walked");
	CHECK(seen.pmem == 1 && seen.memory == 1 && seen.disabled == 1,
	      "its memory is found");
	used = fdt_write(&fdt, &change, out, sizeof(out));
	CHECK(used, "it is written");
	seen = (struct seen){ 0 };
	CHECK(fdt_open(out, used, &fdt) && fdt_walk(&fdt, note, &seen),
	      "what is written is a tree");
	CHECK(seen.memory == 1 && !seen.pmem && seen.memory_base == REGION &&
		      seen.memory_bytes == REGION_BYTES,
	      "the kernel gets the map and nothing else");
	CHECK(seen.blocks == 1 && seen.region[0] == REGION &&
		      seen.region[1] == REGION_BYTES,
	      "and is told of the block");
	CHECK(seen.reserved == 1u + reserves, "%u nodes are reserved",
	      seen.reserved);
	CHECK(!memcmp(seen.cmdline, "memtype=nvram quiet", 20),
	      "it gets our command line");
	CHECK(seen.kept_seed, "and firmware's seed");
	CHECK(seen.initrd_end == 0x90000005, "and the initrd");
	CHECK(fdt.boot_cpu == 3, "the CPU that boots is kept");
	for (u32 room = 0; room < used; room++)
		CHECK(!fdt_write(&fdt, &change, out + ROOM / 2, room),
		      "%u bytes are too few", room);
}

static void test_crc(void)
{
	static struct tree one, other;
	struct fdt a, b;
	u32 crc;

	make(&one, true, "one");
	make(&other, true, "other");
	CHECK(fdt_open(one.all, one.bytes, &a) &&
		      fdt_open(other.all, other.bytes, &b),
	      "both are opened");
	crc = fdt_crc(&a);
	CHECK(crc == fdt_crc(&b), "a seed is no part of the machine");
	make(&other, false, "one");
	CHECK(fdt_open(other.all, other.bytes, &b) && crc != fdt_crc(&b),
	      "a node is");
}

/* Each byte of a tree, damaged: nothing outside of it is read (by the sanitizer). */
static void test_damaged(void)
{
	static struct tree tree;
	struct seen seen = { 0 };
	struct fdt fdt;

	make(&tree, true, "one");
	for (u32 bytes = 0; bytes < tree.bytes; bytes++)
		CHECK(!fdt_open(tree.all, bytes, &fdt), "cut to %u bytes",
		      bytes);
	for (u32 at = 0; at < 56 + tree.used; at++) {
		u8 old = tree.all[at];

		tree.all[at] = (u8)(old ^ 0xff);
		if (fdt_open(tree.all, tree.bytes, &fdt)) {
			seen = (struct seen){ 0 };
			checks_done += fdt_walk(&fdt, note, &seen);
		}
		tree.all[at] = old;
	}
}

void test_fdt(void)
{
	test_written(true);
	test_written(false);
	test_crc();
	test_damaged();
}
