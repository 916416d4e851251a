/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The kernel's file on RISC-V: its header, and what builds are told apart by. */
#include <string.h>

#include "../../format/rem_image.h"
#include "../core/build_id.h"
#include "../core/riscv_image.h"
#include "check.h"

static void test_image(void)
{
	u8 head[BZ_HEAD_BYTES] = { 0 };
	struct bz_image image;

	put_u64(head + 16, 0x1600000);
	put_u32(head + 56, 0x05435352);
	CHECK(!riscv_image_parse(head, 0x1400000, &image), "an Image");
	CHECK(image.init_bytes == 0x1600000 &&
		      image.kernel_bytes == 0x1400000 && !image.setup_bytes,
	      "its sizes");
	CHECK(riscv_image_parse(head, 0x1600001, &image), "a size too large");
	put_u64(head + 24, 1);
	CHECK(riscv_image_parse(head, 0x1400000, &image), "big endian");
	put_u64(head + 24, 0);
	for (u32 i = 0; i < 100; i++)
		head[200 + i] = (u8)i;
	CHECK(riscv_image_sum(riscv_image_sum(RISCV_SUM_BEGIN, head, 96),
			      head + 96, 205) ==
		      riscv_image_sum(RISCV_SUM_BEGIN, head, 301),
	      "a sum in parts");
	head[300] ^= 1;
	CHECK(riscv_image_sum(RISCV_SUM_BEGIN, head, 301) !=
		      riscv_image_sum(RISCV_SUM_BEGIN, head, 300),
	      "the last byte counts");
	put_u32(head + 56, 0x05435353);
	CHECK(riscv_image_parse(head, 0x1400000, &image), "no magic");
}

static void put_note(u8 *to, u8 first)
{
	put_u32(to, 4);
	put_u32(to + 4, 20);
	put_u32(to + 8, 3);
	memcpy(to + 12, "GNU", 4);
	memset(to + 16, 0, 20);
	to[16] = first;
}

static void test_notes(void)
{
	u8 file[400] = { 0 };
	struct build_ids ids = { 0 };
	u64 word[2];

	put_note(file + 40, 1);
	put_note(file + 400 - BUILD_NOTE_BYTES, 2);
	build_ids_scan(&ids, 0x1000, file, sizeof(file));
	CHECK(ids.count == 2 && !ids.more, "two notes");
	CHECK(ids.at[0] == 0x1028 && ids.id[0][0] == 1, "the first");
	CHECK(ids.at[1] == 0x116c && ids.id[1][0] == 2, "one at the end");
	build_ids_pack(&ids, word);
	CHECK(word[0] == 0x116c00001028ull && !word[1], "their offsets");
	ids = (struct build_ids){ 0 };
	build_ids_scan(&ids, 0, file, sizeof(file) - 1);
	CHECK(ids.count == 1, "one that is cut off");
	build_ids_scan(&ids, 0, file + 40, BUILD_NOTE_BYTES - 1);
	build_ids_scan(&ids, 0, file + 40, 0);
	CHECK(ids.count == 1, "a part that is too short");
	for (u32 at = 0; at < 16; at++) {
		file[40 + at] ^= 0x40;
		CHECK(!build_note_is(file + 40), "not a note: byte %u", at);
		file[40 + at] ^= 0x40;
	}
	ids.count = 0;
	for (u32 i = 0; i < BUILD_IDS_MAX; i++)
		build_ids_add(&ids, i, file + 40);
	CHECK(!ids.more, "as many as there is room for");
	build_ids_add(&ids, BUILD_IDS_MAX, file + 40);
	CHECK(ids.count == BUILD_IDS_MAX && ids.more, "too many");
}

static void test_hint(void)
{
	static u8 desc[REM_DESC_BYTES];
	struct rem_desc head = { .magic = REM_DESC_MAGIC, .count = 2 };
	struct rem_desc_entry entry = { .type = REM_DESC_CPU_COUNT };
	u32 at[BUILD_IDS_MAX];

	CHECK(!build_ids_hint(desc, at), "no description");
	memcpy(desc, &head, sizeof(head));
	memcpy(desc + sizeof(head), &entry, sizeof(entry));
	CHECK(!build_ids_hint(desc, at), "no kernel in it");
	entry.type = REM_DESC_KERNEL;
	memcpy(desc + sizeof(head) + sizeof(entry), &entry, sizeof(entry));
	CHECK(!build_ids_hint(desc, at), "no offsets");
	entry.value[3] = 0x116c00001028ull;
	entry.value[4] = 7;
	memcpy(desc + sizeof(head) + sizeof(entry), &entry, sizeof(entry));
	CHECK(build_ids_hint(desc, at) == 3, "three offsets");
	CHECK(at[0] == 0x1028 && at[1] == 0x116c && at[2] == 7, "in order");
	head.count = REM_DESC_ENTRIES_MAX + 1;
	memcpy(desc, &head, sizeof(head));
	CHECK(!build_ids_hint(desc, at), "an impossible count");
}

void test_riscv_image(void)
{
	test_image();
	test_notes();
	test_hint();
}
