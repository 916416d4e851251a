/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bzImage and boot_params, the machine description, the golden bytes. */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "../core/linux.h"
#include "../core/pwr.h"
#include "../core/ranges.h"
#include "../core/record.h"
#include "check.h"

static void make_head(u8 *head)
{
	memset(head, 0, BZ_HEAD_BYTES);
	head[0x1f1] = 39;
	head[0x201] = 0x6a;
	memcpy(head + 0x202, "HdrS", 4);
	put_u16(head + 0x206, 0x20f);
	put_u16(head + 0x20e, 0x3000);
	put_u32(head + 0x230, 0x200000);
	put_u16(head + 0x236, 3);
	put_u32(head + 0x238, 2047);
	put_u32(head + 0x260, 0x2000000);
}

static void kernel_gets_the_screen(void)
{
	u8 head[BZ_HEAD_BYTES], params[GO_PAGE_BYTES];
	const struct map map = { .count = 0 };
	const struct linux_boot boot = {
		.map = &map,
		.screen = {
			.base = 0x8c0000000,
			.line_bytes = 5120,
			.width = 1278,
			.height = 800,
			.red_at = 16,
			.green_at = 8,
		},
	};

	make_head(head);
	linux_boot_params(params, head, &boot);
	CHECK(params[0xf] == 0x70 && get_u16(params + 0x12) == 1278 &&
		      get_u16(params + 0x14) == 800 &&
		      get_u16(params + 0x16) == 32 &&
		      get_u16(params + 0x24) == 5120 &&
		      get_u32(params + 0x1c) == 5120 * 800,
	      "a screen");
	CHECK(get_u32(params + 0x18) == 0xc0000000 &&
		      get_u32(params + 0x3a) == 8 &&
		      get_u32(params + 0x36) == 2,
	      "its memory above 4 GiB");
	CHECK(!memcmp(params + 0x26, "\x08\x10\x08\x08\x08\x00\x08\x18", 8),
	      "its colours");
}

void test_linux(void)
{
	static const struct {
		u32 at;
		u8 value;
	} wrong[] = {
		{ 0x202, 'h' }, { 0x207, 1 }, { 0x236, 0 },
		{ 0x236, 1 },	{ 0x236, 2 }, { 0x201, 0x10 },
		{ 0x230, 3 },	{ 0x232, 0 }, { 0x263, 0 },
	};
	u8 head[BZ_HEAD_BYTES], params[GO_PAGE_BYTES];
	struct map map = { .count = 0 };
	struct linux_boot boot = {
		.cmdline_phys = 0x123456789,
		.initrd_phys = 0x2abcdef000,
		.initrd_bytes = 77,
		.setup_data_phys = 0x100101000,
		.rsdp_phys = 0x100080000,
		.map = &map,
	};
	struct bz_image image;

	make_head(head);
	CHECK(!bz_parse(head, 0x400000, &image), "a valid image");
	CHECK(image.setup_bytes == 40 * 512 &&
		      image.kernel_bytes == 0x400000 - 40 * 512 &&
		      image.version_at == 0x3200,
	      "its numbers");
	CHECK(bz_parse(head, 40 * 512, &image), "no kernel after the setup");
	CHECK(bz_parse(head, 0x100000000, &image), "too long");
	for (u32 i = 0; i < GO_COUNT(wrong); i++) {
		u8 saved = head[wrong[i].at];

		head[wrong[i].at] = wrong[i].value;
		if (wrong[i].at == 0x263)
			put_u32(head + 0x260, 0x1000);
		CHECK(bz_parse(head, 0x400000, &image), "wrong byte at %x",
		      wrong[i].at);
		head[wrong[i].at] = saved;
		put_u32(head + 0x260, 0x2000000);
	}

	map_paint(&map, 0x1000, 0x2000, MAP_RAM);
	map_paint(&map, 0x100000000, 0x40000000, MAP_RESERVED);
	head[0x201] = 0xff; /* a header that would run into the e820 table */
	linux_boot_params(params, head, &boot);
	CHECK(params[0x1e8] == 2, "two entries");
	CHECK(get_u64(params + 0x2d0) == 0x1000 &&
		      get_u64(params + 0x2d0 + 20 + 8) == 0x40000000 &&
		      get_u32(params + 0x2d0 + 36) == MAP_RESERVED,
	      "e820");
	CHECK(get_u32(params + 0x228) == 0x23456789 &&
		      get_u32(params + 0xc8) == 1,
	      "command line above 4 GiB");
	CHECK(get_u32(params + 0x218) == 0xbcdef000 &&
		      get_u32(params + 0xc0) == 0x2a &&
		      get_u32(params + 0x21c) == 77,
	      "initrd above 4 GiB");
	CHECK(get_u64(params + 0x70) == 0x100080000, "RSDP");
	CHECK(get_u64(params + 0x250) == 0x100101000, "setup_data");
	CHECK(!params[0xf] && !get_u32(params + 0x18), "no screen");
	kernel_gets_the_screen();
}

static void check_pair(struct desc *a, struct desc *b, u32 reason, u16 expected,
		       u16 found, const char *what)
{
	struct rem_desc_entry image, machine;
	u32 result;

	desc_finish(a);
	desc_finish(b);
	result = desc_compare((const u8 *)a->entry, a->count, b, &image,
			      &machine);
	CHECK(result == reason, "%s: reason %u", what, result);
	if (result != REM_BOOT_RESUME)
		CHECK(image.type == expected && machine.type == found,
		      "%s: types %u %u", what, image.type, machine.type);
}

void test_desc(void)
{
	static struct desc a, b, empty;
	u64 value = 1;

	check_pair(&empty, &b, REM_BOOT_RESUME, 0, 0, "both empty");
	desc_add(&a, REM_DESC_PCI, 0x10, &value, 1);
	desc_add(&a, REM_DESC_PCI, 0x08, &value, 1);
	desc_add(&b, REM_DESC_PCI, 0x08, &value, 1);
	desc_add(&b, REM_DESC_PCI, 0x10, &value, 1);
	check_pair(&a, &b, REM_BOOT_RESUME, 0, 0, "order does not matter");
	desc_add(&b, REM_DESC_PCI, 0x0c, &value, 1);
	check_pair(&a, &b, REM_COLD_PCI_DIFFERS, 0, REM_DESC_PCI, "more");
	check_pair(&b, &a, REM_COLD_PCI_DIFFERS, REM_DESC_PCI, 0, "fewer");
	desc_add(&a, REM_DESC_PCI, 0x0c, &value, 1);
	desc_add(&a, 99, 0, &value, 1);
	check_pair(&a, &b, REM_COLD_MACHINE_UNKNOWN, 99, 0, "unknown type");
	check_pair(&empty, &b, REM_COLD_PCI_DIFFERS, 0, REM_DESC_PCI, "none");
	desc_add(&b, REM_DESC_DISK, 8, &value, 1);
	desc_add(&b, REM_DESC_DISK, 8, &value, 1);
	desc_finish(&b);
	CHECK(b.entry[b.count - 1].index == 1, "equal keys are numbered");
	while (!empty.full)
		desc_add(&empty, 1, 0, &value, 1);
	CHECK(empty.count == REM_DESC_ENTRIES_MAX, "full");
}

void test_boot_cpu(void)
{
	static struct desc first, other, again;
	const u32 apic_id[] = { 0, 2, 4 };

	desc_add_cpus(&first, apic_id, 3, 0);
	desc_add_cpus(&again, apic_id, 3, 0);
	desc_add_cpus(&other, apic_id, 3, 2);
	check_pair(&first, &again, REM_BOOT_RESUME, 0, 0, "the same boots");
	check_pair(&first, &other, REM_COLD_CPU_DIFFERS, REM_DESC_CPU,
		   REM_DESC_CPU, "another CPU boots");
}

static u32 read_golden(const char *folder, const char *name, u8 *to,
		       u32 bytes_max)
{
	char path[4096];
	size_t bytes = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	CHECK(file, "%s cannot be opened", path);
	if (file) {
		bytes = fread(to, 1, bytes_max, file);
		fclose(file);
	}
	return (u32)bytes;
}

/*
 * The golden image has addresses outside of NVRAM, so the best possible result is
 * "body-field": then its words and checksums are right.
 */
void test_golden(const char *folder)
{
	u8 *block = calloc(1, REM_BLOCK_BYTES);
	static struct desc found;
	u8 file[4096], again[4096];
	struct rem_range_stamp stamp;
	struct decision decision;
	struct rem_word word;
	u32 bytes;

	bytes = read_golden(folder, "desc.bin", file, sizeof(file));
	memcpy(found.entry, file + sizeof(struct rem_desc),
	       bytes - sizeof(struct rem_desc));
	found.count = 2;
	CHECK(desc_write(&found, again) == bytes && !memcmp(file, again, bytes),
	      "desc.bin");

	read_golden(folder, "block.bin", block, 64);
	read_golden(folder, "consumed.bin", block + REM_CONSUMED_OFFSET, 8);
	read_golden(folder, "body.bin",
		    block + REM_BODY_OFFSET + REM_BODY_STRIDE_BYTES, 352);
	read_golden(folder, "commit.bin",
		    block + REM_COMMIT_OFFSET + REM_COMMIT_STRIDE_BYTES, 8);
	rem_decide(block, 0x100000000, 0x40000000, &found, false, &decision);
	CHECK(decision.reason == REM_COLD_ALREADY_CONSUMED, "golden: %u",
	      decision.reason);
	word = record_consumed(0x01020304);
	memcpy(block + REM_CONSUMED_OFFSET, &word, sizeof(word));
	rem_decide(block, 0x100000000, 0x40000000, &found, false, &decision);
	CHECK(decision.reason == REM_COLD_BODY_FIELD &&
		      decision.sequence == 0x01020305 &&
		      decision.consume == 0x01020305,
	      "golden: %u", decision.reason);
	free(block);

	read_golden(folder, "range_stamp.bin", (u8 *)&stamp, sizeof(stamp));
	CHECK(range_stamp_checks(&stamp) && stamp.count == 3,
	      "range_stamp.bin");

	CHECK(read_golden(folder, "pwr.bin", file, sizeof(file)) == 128,
	      "pwr.bin");
	for (u32 i = 0; i < 128; i += 2)
		CHECK(pwr_is_status(file[i]) &&
			      pwr_echo(file[i]) == file[i + 1],
		      "pwr.bin %u", i);
}
