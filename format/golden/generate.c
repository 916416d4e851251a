// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Writes the golden bytes of the format: one file for each struct, filled with
 * values that differ in every byte, a short recording, and layout.txt with each field's place as
 * the compiler sees it. Every reader, in whatever language, is tested against
 * these files; they change only with the format's version.
 *
 *   cc -std=c17 -I format -o generate format/golden/generate.c && ./generate DIR
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "off2f.h"
#include "rem_image.h"
#include "rem_pm.h"
#include "rem_pm_block.h"
#include "rem_pwr.h"
#include "rem_recording.h"
#include "rem_keep.h"
#include "rem_redo.h"
#include "rem_registry.h"
#include "rem_vm.h"

#define GOLDEN_SEQUENCE 0x01020305u
#define GOLDEN_ENTRIES 2
#define GOLDEN_BODY_BYTES (REM_BODY_HEADER_BYTES + GOLDEN_ENTRIES * 48)

static const char *directory;

/* Bit by bit, so that it shares nothing with the tables of those it tests. */
static rem_u32 crc32c(const void *data, size_t bytes)
{
	const rem_u8 *byte = data;
	rem_u32 crc = 0xffffffff;

	while (bytes--) {
		crc ^= *byte++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc ^ 0xffffffff;
}

static FILE *create(const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "wb");
	if (!file) {
		perror(path);
		exit(1);
	}
	return file;
}

static void finish(FILE *file)
{
	if (ferror(file) | fclose(file)) {
		perror("golden file");
		exit(1);
	}
}

static void put(const char *name, const void *data, size_t bytes)
{
	FILE *file = create(name);

	fwrite(data, 1, bytes, file);
	finish(file);
}

/* Words of a golden struct: all bytes differ, none is 0 or 0xff. */
static rem_u64 word(unsigned int index)
{
	rem_u64 value = 0;

	for (unsigned int byte = 0; byte < 8; byte++)
		value |= (rem_u64)(0x11 + (index * 8 + byte) % 0xe0)
			 << 8 * byte;
	return value;
}

static void fill_entries(struct rem_desc_entry *entry)
{
	memset(entry, 0, GOLDEN_ENTRIES * sizeof(*entry));
	entry[0].type = REM_DESC_KERNEL;
	entry[0].value[0] = word(0);
	entry[0].value[1] = word(1);
	entry[0].value[2] = word(2);
	entry[1].type = REM_DESC_DISK;
	entry[1].index = 0x0102;
	entry[1].key = 0x03040506;
	for (unsigned int i = 0; i < 5; i++)
		entry[1].value[i] = word(3 + i);
}

static void write_block(void)
{
	struct rem_block block = {
		.magic = REM_BLOCK_MAGIC,
		.version = REM_VERSION,
		.block_bytes = REM_BLOCK_BYTES,
		.region_bytes = 0x40000000,
	};

	block.crc = crc32c(&block, offsetof(struct rem_block, crc));
	put("block.bin", &block, sizeof(block));
}

static void write_desc(void)
{
	struct {
		struct rem_desc head;
		struct rem_desc_entry entry[GOLDEN_ENTRIES];
	} desc = { .head = { .magic = REM_DESC_MAGIC,
			     .count = GOLDEN_ENTRIES } };

	fill_entries(desc.entry);
	desc.head.crc = crc32c(desc.entry, sizeof(desc.entry));
	put("desc.bin", &desc, sizeof(desc));
}

static rem_u32 write_body(void)
{
	struct {
		struct rem_body head;
		struct rem_desc_entry entry[GOLDEN_ENTRIES];
	} body;
	struct rem_body *head = &body.head;

	memset(&body, 0, sizeof(body));
	head->magic = REM_BODY_MAGIC;
	head->version = REM_VERSION;
	head->body_bytes = GOLDEN_BODY_BYTES;
	head->sequence = GOLDEN_SEQUENCE;
	head->stop_reason = REM_STOP_POWER;
	head->stop_mode = REM_MODE_DPM;
	head->region_phys = 0x100000000;
	head->region_bytes = 0x40000000;
	head->entry_phys = word(8);
	head->entry_cr3 = word(9);
	head->context_phys = word(10);
	head->context_bytes = 0x200;
	head->cpu_count = 4;
	head->realtime_ns = word(11);
	head->boottime_ns = word(12);
	head->monotonic_ns = word(13);
	head->tsc = word(14);
	head->desc_offset = REM_BODY_HEADER_BYTES;
	head->desc_count = GOLDEN_ENTRIES;
	head->stop_begin_tsc = word(15);
	head->tsc_khz = word(16);
	head->policy = REM_POLICY_HOLD;
	head->hold_s = 30;
	head->key_counter = word(31);
	head->key_phys = 0x1003000;
	head->key_id = word(32);
	head->measured = word(33);
	head->text_pages = 0x0801;
	head->text_phys = 0x100200000;
	head->text_counter = word(35);
	head->rodata_page = 0x0a02;
	head->rodata_pages = 0x01a3;
	for (rem_u8 i = 0; i < sizeof(head->mac); i++)
		head->mac[i] = (rem_u8)(0x30 + i);
	for (rem_u8 i = 0; i < sizeof(head->build_id); i++)
		head->build_id[i] = (rem_u8)(0xa0 + i);
	head->header_crc = crc32c(head, REM_BODY_HEADER_CRC_BYTES);
	fill_entries(body.entry);
	put("body.bin", &body, sizeof(body));
	return crc32c(&body, sizeof(body));
}

static void write_words(rem_u32 body_crc)
{
	const rem_u32 consumed[] = { REM_WORD_CONSUMED, GOLDEN_SEQUENCE };
	const rem_u32 commit[] = { REM_WORD_COMMIT, GOLDEN_SEQUENCE, body_crc };
	struct rem_word out = { .sequence = GOLDEN_SEQUENCE };

	out.check = crc32c(consumed, sizeof(consumed));
	put("consumed.bin", &out, sizeof(out));
	out.check = crc32c(commit, sizeof(commit));
	put("commit.bin", &out, sizeof(out));
}

static void write_boot_note(void)
{
	struct rem_desc_entry entry[GOLDEN_ENTRIES];
	struct rem_boot_note note = {
		.magic = REM_NOTE_MAGIC,
		.version = REM_VERSION,
		.reason = REM_COLD_DISK_DIFFERS,
		.sequence = GOLDEN_SEQUENCE,
		.slot = GOLDEN_SEQUENCE % REM_SLOTS,
		.entry_tsc = word(17),
		.ready_tsc = word(18),
		.leave_tsc = word(19),
		.charge = 0x87,
		.nvdimm = 0xa5,
		.held = REM_COLD_PCI_DIFFERS,
	};

	fill_entries(entry);
	note.expected = entry[1];
	note.found = entry[0];
	note.crc = crc32c(&note, offsetof(struct rem_boot_note, crc));
	put("boot_note.bin", &note, sizeof(note));
}

static void write_trust(void)
{
	struct rem_trust trust = {
		.magic = REM_TRUST_MAGIC,
		.version = REM_VERSION,
		.state = REM_TRUST_ON,
		.key_counter = word(31),
		.key_phys = 0x1003000,
		.key_id = word(32),
		.measured = word(33),
		.tpm_ticks = word(34),
	};
	struct rem_key key = {
		.magic = REM_KEY_MAGIC,
		.key_counter = word(31),
		.text_counter = word(35),
		.text_sum = { word(36), word(37), word(38) },
	};

	trust.crc = crc32c(&trust, offsetof(struct rem_trust, crc));
	put("trust.bin", &trust, sizeof(trust));
	for (rem_u8 i = 0; i < sizeof(key.key); i++)
		key.key[i] = (rem_u8)(0x60 + i);
	for (unsigned int i = 0; i < REM_TEXT_KEY_WORDS; i++)
		key.text_key[i] = word(40 + i);
	put("key.bin", &key, sizeof(key));
}

static void write_small(void)
{
	struct rem_handover handover = {
		.magic = REM_HANDOVER_MAGIC,
		.version = REM_VERSION,
		.region_phys = 0x100000000,
		.region_bytes = 0x40000000,
	};
	struct rem_event event = {
		.sequence = GOLDEN_SEQUENCE,
		.type = REM_EVENT_GO_DEVICE,
		.cpu = 3,
		.tsc = word(20),
		.value = word(21),
	};

	struct rem_range_stamp stamp = {
		.magic = REM_RANGE_MAGIC,
		.version = REM_VERSION,
		.count = 3,
		.nonce = word(30),
	};

	put("handover.bin", &handover, sizeof(handover));
	stamp.crc = crc32c(&stamp, offsetof(struct rem_range_stamp, crc));
	put("range_stamp.bin", &stamp, sizeof(stamp));
	event.crc = crc32c(&event, offsetof(struct rem_event, crc));
	put("event.bin", &event, sizeof(event));
}

static rem_u8 parity(unsigned int byte)
{
	unsigned int ones = 0;

	for (unsigned int bit = 0; bit < 7; bit++)
		ones += byte >> bit & 1;
	return (rem_u8)(byte | (ones % 2 ? REM_PWR_PARITY : 0));
}

/* All 64 status bytes in numeric order of their low six bits, each followed by
 * its echo.
 */
static void write_pwr(void)
{
	rem_u8 wire[128];

	for (unsigned int low = 0; low < 64; low++) {
		wire[2 * low] = parity(low);
		wire[2 * low + 1] = parity(low | REM_PWR_FROM_MACHINE);
	}
	put("pwr.bin", wire, sizeof(wire));
}

static void put_event(FILE *file, const struct rem_rec_event *head,
		      const void *payload)
{
	static const rem_u8 pad[8];

	fwrite(head, 1, sizeof(*head), file);
	fwrite(payload, 1, head->payload_bytes, file);
	fwrite(pad, 1, (8u - head->payload_bytes % 8u) % 8u, file);
}

/* One event of each kind, with as much payload as it may have at least; then
 * the first bytes of one that its writer did not finish.
 */
static void write_recording(void)
{
	static const rem_u16 payload_bytes[] = {
		[REM_REC_STORE] = 9,	 [REM_REC_WRITEBACK] = 72,
		[REM_REC_FLUSH] = 16,	 [REM_REC_FENCE] = 8,
		[REM_REC_CACHE_ALL] = 8, [REM_REC_UNSEEN] = 72,
		[REM_REC_DISK_LOG] = 8,	 [REM_REC_LINE] = 72,
		[REM_REC_END] = 0,	 [REM_REC_CONSOLE] = 8,
		[REM_REC_ACCEPTED] = 72,
	};
	struct rem_rec_header header = {
		.magic = REM_REC_MAGIC,
		.version = REM_REC_VERSION,
		.header_bytes = sizeof(header),
		.line_bytes = REM_REC_LINE_BYTES,
		.clock = REM_REC_CLOCK_MODEL,
		.nvram_phys = 0x100000000,
		.nvram_bytes = 0x40000000,
		.base_digest = word(22),
		.seed = word(23),
		.cpu_count = 4,
		.domain = REM_REC_DOMAIN_ADR,
		.profile = "golden",
	};
	rem_u64 payload[REM_REC_PAYLOAD_MAX / 8];
	FILE *file = create("recording.bin");

	header.crc = crc32c(&header, offsetof(struct rem_rec_header, crc));
	fwrite(&header, 1, sizeof(header), file);
	for (unsigned int i = 0; i < REM_REC_PAYLOAD_MAX / 8; i++)
		payload[i] = word(24 + i);
	payload[0] = header.nvram_phys + 2 * REM_REC_LINE_BYTES;
	for (unsigned int kind = REM_REC_STORE; kind <= REM_REC_ACCEPTED;
	     kind++) {
		struct rem_rec_event event = {
			.kind = (rem_u8)kind,
			.vcpu = kind % 2 ? 3 : REM_REC_NO_VCPU,
			.payload_bytes = payload_bytes[kind],
			.aux = kind != REM_REC_UNSEEN && kind != REM_REC_LINE &&
			       kind != REM_REC_END && kind != REM_REC_CONSOLE,
			.time_ns = 0x0102030405060700 + kind,
		};

		put_event(file, &event, payload);
	}
	fputc(REM_REC_STORE, file);
	finish(file);
}

/* The check of a word over what follows it, as rem_pm.h says. */
static rem_u32 pm_check(rem_u32 kind, rem_u32 index, rem_u32 sequence,
			const void *body, size_t bytes)
{
	rem_u8 all[256];
	const rem_u32 head[] = { kind, index, sequence };

	memcpy(all, head, sizeof(head));
	memcpy(all + sizeof(head), body, bytes);
	return crc32c(all, sizeof(head) + bytes);
}

/* A superblock whose half 1 is committed, and a segment in slot 3. */
static void write_pm(void)
{
	rem_u8 slot[REM_PM_SLOT_BYTES];
	struct rem_pm_word in_work = { .sequence = 2 };
	struct rem_pm_super super = {
		.word.sequence = 1,
		.magic = REM_PM_MAGIC,
		.version = REM_PM_VERSION,
		.slots = 10,
		.region_bytes = 0x100000,
		.base_bytes = 0x33000,
		.table_offset = { 0x30000, 0x31000, 0x32000 },
		.created_ns = word(40),
	};
	struct rem_pm_segment segment = {
		.word.sequence = GOLDEN_SEQUENCE,
		.type = REM_PM_BLOCK,
		.persist = REM_PM_FOC,
		.name = "golden",
		.offset = 0x40000,
		.bytes = 0x12345,
		.extent_bytes = 0x13000,
		.generation = word(41),
		.created_ns = word(42),
		.map_address = 0x7f0000000000,
		.uid = 1000,
		.gid = 1001,
		.mode = 0640,
		.block_bytes = 4096,
	};

	for (rem_u8 i = 0; i < 16; i++)
		super.uuid[i] = segment.uuid[i] = (rem_u8)(0xa0 + i);
	super.word.check = pm_check(REM_PM_COMMITTED, REM_PM_SUPER_INDEX, 1,
				    &super.magic, sizeof(super) - 8);
	in_work.check = pm_check(REM_PM_IN_WORK, REM_PM_SUPER_INDEX, 2, "", 0);
	memset(slot, 0, sizeof(slot));
	memcpy(slot, &in_work, sizeof(in_work));
	memcpy(slot + REM_PM_HALF_BYTES, &super, sizeof(super));
	put("pm_super.bin", slot, sizeof(slot));
	segment.word.check = pm_check(REM_PM_COMMITTED, 3, GOLDEN_SEQUENCE,
				      &segment.type, sizeof(segment) - 8);
	put("pm_segment.bin", &segment, sizeof(segment));
}

static void write_pm_block(void)
{
	struct rem_pm_block_header header = {
		.magic = REM_PM_BLOCK_MAGIC,
		.version = REM_PM_BLOCK_VERSION,
		.block_bytes = 4096,
		.blocks = 2,
		.places = 4,
		.map_offset = { 0x3000, 0x4000 },
		.lane_offset = 0x5000,
		.lane_bytes = 0x1000,
		.lanes = 1,
		.place_offset = 0x6000,
		.segment_bytes = 0xa000,
	};
	struct {
		struct rem_pm_lane head;
		struct rem_pm_lane_entry entry[2];
	} lane = { .head = { .word.sequence = GOLDEN_SEQUENCE, .count = 2 } };
	rem_u32 crc;

	for (rem_u8 i = 0; i < 16; i++)
		header.uuid[i] = (rem_u8)(0xa0 + i);
	header.crc = crc32c(&header, offsetof(struct rem_pm_block_header, crc));
	put("pm_block_header.bin", &header, sizeof(header));
	for (rem_u32 i = 0; i < 2; i++)
		lane.entry[i] = (struct rem_pm_lane_entry){
			.block = i,
			.entry = { .place = 3 - i, .check = 0x11223344 + i },
		};
	crc = crc32c(&lane.head.count, 8 + sizeof(lane.entry));
	lane.head.word.check = pm_check(REM_PM_COMMITTED, 0, GOLDEN_SEQUENCE,
					&crc, sizeof(crc));
	lane.head.copy = lane.head.word;
	put("pm_lane.bin", &lane, sizeof(lane));
}

/* The header page of an ABC with one text and two program headers; the end of
 * its XYZ.
 */
static void write_off2f(void)
{
	static const char path[] = "/nvm/golden";
	struct {
		struct off2f_header head;
		struct off2f_text text;
		struct off2f_phdr phdr[2];
		char path[sizeof(path)];
	} page;
	struct off2f_xyz xyz = { .magic = OFF2F_XYZ_MAGIC,
				 .version = OFF2F_VERSION,
				 .xyz_bytes = 0x4180 };

	memset(&page, 0, sizeof(page));
	page.head.magic = OFF2F_MAGIC;
	page.head.version = OFF2F_VERSION;
	page.head.header_bytes =
		(rem_u32)((rem_u8 *)page.path - (rem_u8 *)&page) + sizeof(path);
	page.head.machine = 62;
	page.head.type = 3;
	page.head.texts = 1;
	page.head.phdrs = 2;
	page.head.path_bytes = sizeof(path);
	page.head.abc_bytes = 0x2345;
	page.head.xyz_bytes = xyz.xyz_bytes;
	page.head.source_bytes = 0x4345;
	for (rem_u8 i = 0; i < 64; i++)
		page.head.ehdr[i] = (rem_u8)(0x11 + i);
	for (rem_u8 i = 0; i < 32; i++) {
		page.head.text_sha256[i] = (rem_u8)(0x51 + i);
		page.head.rest_sha256[i] = (rem_u8)(0x71 + i);
	}
	for (rem_u8 i = 0; i < 20; i++)
		page.head.build_id[i] = (rem_u8)(0xa0 + i);
	page.text = (struct off2f_text){
		.vaddr = word(50),
		.bytes = 0x3000,
		.xyz_offset = word(51),
		.source_offset = 0x1000,
		.cut_offset = 0x1000,
		.cut_bytes = 0x3000,
		.phdr = 1,
		.flags = 5,
	};
	page.phdr[0] = (struct off2f_phdr){ word(52), word(53) };
	page.phdr[1] = (struct off2f_phdr){ word(54), word(55) };
	memcpy(page.path, path, sizeof(path));
	page.head.crc = crc32c(&page, page.head.header_bytes);
	put("off2f_header.bin", &page, page.head.header_bytes);
	memcpy(xyz.text_sha256, page.head.text_sha256, 32);
	memcpy(xyz.build_id, page.head.build_id, 20);
	for (rem_u8 i = 0; i < 32; i++)
		xyz.rest_sha256[i] = (rem_u8)(0x91 + i);
	xyz.crc = crc32c(&xyz, offsetof(struct off2f_xyz, crc));
	put("off2f_xyz.bin", &xyz, sizeof(xyz));
}

#define FIELD(type, name)                           \
	fprintf(file, #type " " #name " %zu %zu\n", \
		offsetof(struct type, name), sizeof(((struct type *)0)->name))
#define TOTAL(type) fprintf(file, #type " - 0 %zu\n", sizeof(struct type))

/* A whole record with one image, which was never entered, and the end of its memory. */
static void write_vm(void)
{
	static rem_u8 record[REM_VM_BYTES];
	struct rem_vm_header header = { .magic = REM_VM_MAGIC,
					.version = REM_VM_VERSION,
					.bytes = REM_VM_BYTES };
	struct rem_vm_body body = { .sequence = GOLDEN_SEQUENCE,
				    .state_crc = 0x04050607,
				    .state_bytes = word(60),
				    .ram_bytes = word(61),
				    .saved_s = word(62),
				    .save_ns = word(63) };
	struct rem_vm_tail tail = { .magic = REM_VM_MAGIC,
				    .ram_bytes = word(61) };
	const rem_u32 slot = GOLDEN_SEQUENCE % 2 * REM_VM_SLOT_BYTES;
	const rem_u32 consumed[] = { REM_WORD_CONSUMED, GOLDEN_SEQUENCE - 1 };
	rem_u32 commit[] = { REM_WORD_COMMIT, GOLDEN_SEQUENCE, 0 };
	struct rem_word out = { .sequence = GOLDEN_SEQUENCE - 1 };

	for (rem_u8 i = 0; i < REM_VM_ID_BYTES; i++)
		tail.id[i] = body.ram_id[i] = (rem_u8)(0x31 + i);
	for (rem_u8 i = 0; i < REM_VM_DIGEST_BYTES; i++)
		body.machine[i] = (rem_u8)(0x51 + i);
	header.crc = crc32c(&header, offsetof(struct rem_vm_header, crc));
	tail.crc = crc32c(&tail, offsetof(struct rem_vm_tail, crc));
	memcpy(record, &header, sizeof(header));
	out.check = crc32c(consumed, sizeof(consumed));
	memcpy(record + REM_VM_CONSUMED_OFFSET, &out, sizeof(out));
	memcpy(record + REM_VM_BODY_OFFSET + slot, &body, sizeof(body));
	commit[2] = crc32c(&body, sizeof(body));
	out.sequence = GOLDEN_SEQUENCE;
	out.check = crc32c(commit, sizeof(commit));
	memcpy(record + REM_VM_COMMIT_OFFSET + slot, &out, sizeof(out));
	put("vm_record.bin", record, sizeof(record));
	put("vm_tail.bin", &tail, sizeof(tail));
}

static void write_keep(void)
{
	struct rem_keep_entry entries[] = {
		{ .vaddr = 0x7f0102030000, .frame = 0x0405, .pid = 20001 },
		{ .vaddr = 0x7f0102031000, .frame = 0x0102, .pid = 20001 },
	};

	put("keep_table.bin", entries, sizeof(entries));
}

static void write_registry(void)
{
	struct rem_registry head = {
		.magic = REM_REGISTRY_MAGIC,
		.version = REM_REGISTRY_VERSION,
		.files = 256,
		.bytes = 0x1000000,
		.pages = 4000,
		.redo_bytes = 0x10000,
	};
	struct rem_registry_file file = {
		.id = 0x0102030405060708,
		.sequence = 0x1112131415161718,
		.bytes = 0x2122232425262728,
		.mtime_s = 0x31323334,
		.mtime_ns = 0x15161718,
		.mode = 0100640,
		.uid = 0x41424344,
		.gid = 0x51525354,
		.handle_type = 1,
		.handle_bytes = 8,
		.inode = 0x61626364,
	};
	struct rem_registry_page page = {
		.id = file.id,
		.index = 0x7172737475767778,
		.phys = 0x123456000,
		.content_crc = 0x81828384,
		.content_state = REM_PAGE_STEADY,
		.saved = REM_REGISTRY_SAVED,
	};
	struct rem_registry_policy policy = {
		.in_caches = REM_REGISTRY_IN_CACHES,
	};

	for (int i = 0; i < 16; i++)
		file.uuid[i] = (rem_u8)(0xa0 + i);
	for (int i = 0; i < 8; i++)
		file.handle[i] = (rem_u8)(0xb0 + i);
	head.crc = crc32c(&head, offsetof(struct rem_registry, crc));
	file.crc = crc32c(&file, offsetof(struct rem_registry_file, crc));
	page.crc = crc32c(&page, offsetof(struct rem_registry_page, crc));
	put("registry_head.bin", &head, sizeof(head));
	put("registry_policy.bin", &policy, sizeof(policy));
	put("registry_file.bin", &file, sizeof(file));
	put("registry_page.bin", &page, sizeof(page));
}

static void write_redo(void)
{
	struct rem_redo_disk disk = {
		.magic = REM_REDO_MAGIC,
		.version = REM_REDO_VERSION,
		.slots = 0x1112,
		.id = 0x0102030405060708,
		.offset = 0x3000,
		.sectors = 0x2122232425262728,
		.identity = "virtio rem-root",
	};
	struct rem_redo_word word = {
		.id = disk.id,
		.position = 0x3132333435363738,
	};
	struct rem_redo_slot slot = {
		.id = disk.id,
		.position = 0x4142434445464748,
		.sector = 0x5152535455565758,
		.bytes = 0x0e00,
		.data_crc = 0x61626364,
		.dropped = REM_REDO_DROPPED,
	};

	disk.crc = crc32c(&disk, offsetof(struct rem_redo_disk, crc));
	word.crc = crc32c(&word, offsetof(struct rem_redo_word, crc));
	slot.crc = crc32c(&slot, offsetof(struct rem_redo_slot, crc));
	put("redo_disk.bin", &disk, sizeof(disk));
	put("redo_word.bin", &word, sizeof(word));
	put("redo_slot.bin", &slot, sizeof(slot));
}

static void write_layout(void)
{
	FILE *file = create("layout.txt");

#include "layout_fields.h"
	finish(file);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	directory = argv[1];
	write_block();
	write_desc();
	write_words(write_body());
	write_boot_note();
	write_trust();
	write_small();
	write_pwr();
	write_recording();
	write_pm();
	write_pm_block();
	write_off2f();
	write_vm();
	write_keep();
	write_registry();
	write_redo();
	write_layout();
	return 0;
}
