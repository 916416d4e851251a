/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The decision with exhaustive damage. One oracle for all: given a block with one
 * image that may be entered, after any change the decision is either to enter that
 * image or to enter none; the older slot is never entered.
 */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "build_record.h"
#include "check.h"

#define REGION_PHYS 0x100000000ull
#define REGION_BYTES 0x40000000ull
#define ENTRIES 7
#define BODY_BYTES (REM_BODY_HEADER_BYTES + ENTRIES * 48u)
#define NEWEST 12u
#define CONSUMED 11u

static u8 *block;
static struct desc machine;

static void make_machine(void)
{
	u64 value = 4;

	memset(&machine, 0, sizeof(machine));
	for (u16 type = REM_DESC_KERNEL; machine.count < ENTRIES; type++)
		desc_add(&machine, type, type * 3u, &value, 1);
	desc_finish(&machine);
}

static struct record_image image_of(u32 sequence)
{
	return (struct record_image){
		.sequence = sequence,
		.region_phys = REGION_PHYS,
		.region_bytes = REGION_BYTES,
		.entry_phys = REGION_PHYS + 0x1234560,
		.entry = machine.entry,
		.entry_count = machine.count,
	};
}

/* Slot 1 has the consumed image 11, slot 0 the new image 12. */
static void make_block(void)
{
	struct record_image older = image_of(CONSUMED);
	struct record_image newer = image_of(NEWEST);

	memset(block, 0, REM_BLOCK_BYTES);
	build_block(block, REGION_BYTES, CONSUMED);
	build_image(block, &older);
	build_image(block, &newer);
}

static struct decision decide(void)
{
	struct decision decision;

	rem_decide(block, REGION_PHYS, REGION_BYTES, &machine, false,
		   &decision);
	return decision;
}

static u32 reason(void)
{
	return decide().reason;
}

static u8 *body(u32 n)
{
	return block + REM_BODY_OFFSET + n * REM_BODY_STRIDE_BYTES;
}

static u8 *commit(u32 n)
{
	return block + REM_COMMIT_OFFSET + n * REM_COMMIT_STRIDE_BYTES;
}

static void newest_is_entered(void)
{
	struct decision decision;

	make_block();
	decision = decide();
	CHECK(decision.reason == REM_BOOT_RESUME, "reason %u", decision.reason);
	CHECK(decision.sequence == NEWEST && decision.slot == 0, "which");
	CHECK(decision.consume == NEWEST, "consume %u", decision.consume);
	CHECK(decision.body.entry_phys == REGION_PHYS + 0x1234560, "entry");
}

static void no_bit_flip_is_entered(u32 offset, u32 bytes, const char *what)
{
	for (u32 at = offset; at < offset + bytes; at++)
		for (u32 bit = 0; bit < 8; bit++) {
			struct decision decision;

			block[at] ^= (u8)(1u << bit);
			decision = decide();
			CHECK(decision.reason != REM_BOOT_RESUME,
			      "%s byte %x bit %u entered %u", what, at, bit,
			      decision.sequence);
			/* A slot that is damaged now is consumed, too. */
			CHECK(decision.consume == NEWEST ||
				      decision.reason ==
					      REM_COLD_CONSUMED_INVALID,
			      "%s byte %x bit %u leaves the image open", what,
			      at, bit);
			block[at] ^= (u8)(1u << bit);
		}
}

static void every_bit_flip_is_cold(void)
{
	make_block();
	no_bit_flip_is_entered(0, sizeof(struct rem_block), "block");
	no_bit_flip_is_entered(REM_CONSUMED_OFFSET, 8, "consumed");
	no_bit_flip_is_entered(REM_COMMIT_OFFSET, 8, "newest commit");
	no_bit_flip_is_entered(REM_COMMIT_OFFSET + REM_COMMIT_STRIDE_BYTES, 8,
			       "older commit");
	no_bit_flip_is_entered(REM_BODY_OFFSET, BODY_BYTES, "newest body");
	no_bit_flip_is_entered(REM_BODY_OFFSET + REM_BODY_STRIDE_BYTES,
			       BODY_BYTES, "older body");
	CHECK(reason() == REM_BOOT_RESUME, "flips were undone");
}

/* The first n bytes of the new record are on media, the rest is old. */
static void every_truncation_is_cold(void)
{
	u8 whole[BODY_BYTES];

	make_block();
	memcpy(whole, body(0), BODY_BYTES);
	for (u32 fill = 0; fill < 3; fill++)
		for (u32 bytes = 0; bytes < BODY_BYTES; bytes++) {
			static const u8 rest[3] = { 0x00, 0xff, 0x5a };

			memset(body(0), rest[fill], BODY_BYTES);
			memcpy(body(0), whole, bytes);
			/* The last bytes may be zeros anyway. */
			if (!memcmp(body(0), whole, BODY_BYTES))
				continue;
			CHECK(reason() != REM_BOOT_RESUME,
			      "truncated to %u, rest %x", bytes, rest[fill]);
		}
}

static void swapped_slots_are_cold(void)
{
	u8 *copy = malloc(REM_BODY_STRIDE_BYTES);
	u8 word[8];

	make_block();
	memcpy(copy, body(0), REM_BODY_STRIDE_BYTES);
	memcpy(body(0), body(1), REM_BODY_STRIDE_BYTES);
	memcpy(body(1), copy, REM_BODY_STRIDE_BYTES);
	CHECK(reason() == REM_COLD_COMMIT_DAMAGED, "bodies swapped: %u",
	      reason());
	memcpy(word, commit(0), 8);
	memcpy(commit(0), commit(1), 8);
	memcpy(commit(1), word, 8);
	CHECK(reason() == REM_COLD_COMMIT_DAMAGED, "all swapped: %u", reason());
	free(copy);
}

static void zeros_and_ones_are_cold(void)
{
	struct decision decision;

	memset(block, 0, REM_BLOCK_BYTES);
	decision = decide();
	CHECK(decision.reason == REM_COLD_NO_BLOCK && !decision.consume,
	      "zeros: %u", decision.reason);
	memset(block, 0xff, REM_BLOCK_BYTES);
	decision = decide();
	CHECK(decision.reason == REM_COLD_NO_BLOCK && !decision.consume,
	      "ones: %u", decision.reason);
	make_block();
	memset(block + REM_CONSUMED_OFFSET, 0, 8);
	decision = decide();
	CHECK(decision.reason == REM_COLD_CONSUMED_INVALID && !decision.consume,
	      "no consumed word: %u", decision.reason);
	make_block();
	memset(commit(0), 0, 8);
	CHECK(reason() == REM_COLD_ALREADY_CONSUMED, "newest cleared");
	memset(commit(1), 0, 8);
	CHECK(reason() == REM_COLD_NOT_COMMITTED, "both cleared");
	make_block();
	memset(commit(0), 0xff, 8);
	CHECK(reason() == REM_COLD_COMMIT_DAMAGED, "commit all ones");
	memset(body(0), 0xff, REM_BODY_STRIDE_BYTES);
	CHECK(reason() != REM_BOOT_RESUME, "body all ones");
}

static void resume_is_one_shot(void)
{
	struct rem_word word = record_consumed(NEWEST);

	make_block();
	memcpy(block + REM_CONSUMED_OFFSET, &word, sizeof(word));
	CHECK(reason() == REM_COLD_ALREADY_CONSUMED, "consumed");
	word = record_consumed(NEWEST + 1);
	memcpy(block + REM_CONSUMED_OFFSET, &word, sizeof(word));
	CHECK(reason() == REM_COLD_ALREADY_CONSUMED, "newer consumed");
	CHECK(!decide().consume, "nothing left to consume");
}

static void asked_is_cold_and_consumes(void)
{
	struct decision decision;

	make_block();
	rem_decide(block, REGION_PHYS, REGION_BYTES, &machine, true, &decision);
	CHECK(decision.reason == REM_COLD_ASKED, "reason");
	CHECK(decision.consume == NEWEST, "consume");
}

/* A header with valid checksums and one impossible field. */
static void refuse_field_of_block(u32 offset, u64 value, u32 bytes,
				  u32 expected, const char *what)
{
	memcpy(body(0) + offset, &value, bytes);
	build_reseal(block, 0);
	CHECK(reason() == expected, "%s = %llx: reason %u", what,
	      (unsigned long long)value, reason());
}

static void refuse_field(u32 offset, u64 value, u32 bytes, u32 expected,
			 const char *what)
{
	make_block();
	refuse_field_of_block(offset, value, bytes, expected, what);
}

#define REFUSE(field, value, expected)                        \
	refuse_field(offsetof(struct rem_body, field), value, \
		     sizeof(((struct rem_body *)0)->field), expected, #field)

static void impossible_fields_are_cold(void)
{
	u64 end = REGION_PHYS + REGION_BYTES;

	REFUSE(magic, 1, REM_COLD_BODY_MAGIC);
	REFUSE(version, 2, REM_COLD_BODY_VERSION);
	REFUSE(body_bytes, 0, REM_COLD_BODY_SIZE);
	REFUSE(body_bytes, 240, REM_COLD_BODY_SIZE);
	REFUSE(body_bytes, BODY_BYTES + 1, REM_COLD_BODY_SIZE);
	REFUSE(body_bytes, REM_BODY_STRIDE_BYTES + 16, REM_COLD_BODY_SIZE);
	REFUSE(body_bytes, 0xfffffff0u, REM_COLD_BODY_SIZE);
	REFUSE(sequence, NEWEST - 1, REM_COLD_COMMIT_DAMAGED);
	REFUSE(sequence, 0, REM_COLD_COMMIT_DAMAGED);
	REFUSE(stop_reason, 0, REM_COLD_BODY_FIELD);
	REFUSE(stop_reason, 3, REM_COLD_BODY_FIELD);
	REFUSE(stop_mode, 0, REM_COLD_BODY_FIELD);
	REFUSE(stop_mode, 3, REM_COLD_BODY_FIELD);
	REFUSE(region_phys, 0, REM_COLD_BODY_FIELD);
	REFUSE(region_phys, UINT64_MAX, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, 0, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, UINT64_MAX, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, REM_BLOCK_BYTES, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, REGION_BYTES * 2, REM_COLD_MEMORY_DIFFERS);
	REFUSE(entry_phys, 0, REM_COLD_BODY_FIELD);
	REFUSE(entry_phys, REGION_PHYS + REM_BLOCK_BYTES - 1,
	       REM_COLD_BODY_FIELD);
	REFUSE(entry_phys, REGION_PHYS + REM_BLOCK_BYTES, REM_BOOT_RESUME);
	REFUSE(entry_phys, end - 1, REM_BOOT_RESUME);
	REFUSE(entry_phys, end, REM_COLD_BODY_FIELD);
	REFUSE(entry_phys, UINT64_MAX, REM_COLD_BODY_FIELD);
	REFUSE(entry_cr3, end - 4096, REM_BOOT_RESUME);
	REFUSE(entry_cr3, end - 4095, REM_COLD_BODY_FIELD);
	REFUSE(entry_cr3, end, REM_COLD_BODY_FIELD);
	REFUSE(entry_cr3, REGION_PHYS + REM_BLOCK_BYTES + 8,
	       REM_COLD_BODY_FIELD);
	REFUSE(entry_cr3, REGION_PHYS, REM_COLD_BODY_FIELD);
	REFUSE(context_phys, REGION_PHYS, REM_COLD_BODY_FIELD);
	REFUSE(context_phys, end - 640, REM_BOOT_RESUME);
	REFUSE(context_phys, end - 632, REM_COLD_BODY_FIELD);
	REFUSE(context_phys, UINT64_MAX - 7, REM_COLD_BODY_FIELD);
	REFUSE(context_bytes, 0, REM_COLD_BODY_FIELD);
	REFUSE(context_bytes, UINT32_MAX, REM_COLD_BODY_FIELD);
	REFUSE(cpu_count, 0, REM_COLD_BODY_FIELD);
	REFUSE(cpu_count, UINT32_MAX, REM_COLD_BODY_FIELD);
	REFUSE(desc_offset, 0, REM_COLD_BODY_FIELD);
	REFUSE(desc_offset, 248, REM_COLD_BODY_FIELD);
	REFUSE(desc_offset, 257, REM_COLD_BODY_FIELD);
	REFUSE(desc_offset, 264, REM_COLD_BODY_FIELD);
	REFUSE(desc_offset, UINT32_MAX - 7, REM_COLD_BODY_FIELD);
	REFUSE(desc_count, 0, REM_COLD_BODY_FIELD);
	REFUSE(desc_count, ENTRIES + 1, REM_COLD_BODY_FIELD);
	REFUSE(desc_count, 0x05555556, REM_COLD_BODY_FIELD);
	REFUSE(reserved2, 1, REM_COLD_BODY_FIELD);
	REFUSE(reserved[0], 1, REM_COLD_BODY_FIELD);
	REFUSE(reserved[11], 1ull << 63, REM_COLD_BODY_FIELD);
}

/* A table with one entry less has room for an offset that is not aligned. */
static void unaligned_table_is_cold(void)
{
	u32 count = ENTRIES - 1;

	make_block();
	memcpy(body(0) + offsetof(struct rem_body, desc_count), &count, 4);
	refuse_field_of_block(offsetof(struct rem_body, desc_offset), 257, 4,
			      REM_COLD_BODY_FIELD, "desc_offset");
}

static void other_machine_is_named(void)
{
	static const u32 of_type[] = {
		0,
		REM_COLD_KERNEL_DIFFERS,
		REM_COLD_CPU_DIFFERS,
		REM_COLD_CPU_DIFFERS,
		REM_COLD_CPUID_DIFFERS,
		REM_COLD_MEMORY_DIFFERS,
		REM_COLD_PCI_DIFFERS,
		REM_COLD_ACPI_DIFFERS,
	};

	make_block();
	for (u32 i = 0; i < ENTRIES; i++) {
		struct rem_desc_entry saved = machine.entry[i];
		struct decision decision;

		machine.entry[i].value[4]++;
		decision = decide();
		CHECK(decision.reason == of_type[saved.type], "type %u: %u",
		      saved.type, decision.reason);
		CHECK(decision.expected.value[4] == 0 &&
			      decision.found.value[4] == 1 &&
			      decision.found.type == saved.type,
		      "both are named");
		CHECK(decision.consume == NEWEST, "consumed");
		machine.entry[i] = saved;
	}
	CHECK(reason() == REM_BOOT_RESUME, "same machine again");
}

static void other_region_is_memory_differs(void)
{
	struct decision decision;

	make_block();
	rem_decide(block, REGION_PHYS + REGION_BYTES, REGION_BYTES, &machine,
		   false, &decision);
	CHECK(decision.reason == REM_COLD_MEMORY_DIFFERS, "moved");
	CHECK(decision.expected.value[0] == REGION_PHYS, "named");
}

void test_record(void)
{
	crc32c_init(true);
	block = malloc(REM_BLOCK_BYTES);
	make_machine();
	newest_is_entered();
	every_bit_flip_is_cold();
	every_truncation_is_cold();
	swapped_slots_are_cold();
	zeros_and_ones_are_cold();
	resume_is_one_shot();
	asked_is_cold_and_consumes();
	impossible_fields_are_cold();
	unaligned_table_is_cold();
	other_machine_is_named();
	other_region_is_memory_differs();
	free(block);
}
