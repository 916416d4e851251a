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
#define DRAM_BYTES 0x4000000ull
#define SECOND_PHYS 0x200000000ull
#define SECOND_BYTES 0x20000000ull
#define ENTRIES 9
#define BODY_BYTES (REM_BODY_HEADER_BYTES + ENTRIES * 48u)
#define NEWEST 12u
#define CONSUMED 11u

static u8 *block;
static struct desc machine;

static void make_machine(void)
{
	u64 value = 4;

	memset(&machine, 0, sizeof(machine));
	for (u16 type = REM_DESC_KERNEL; type <= REM_DESC_ACPI; type++)
		if (type != REM_DESC_MEMORY)
			desc_add(&machine, type, type * 3u, &value, 1);
	desc_add(&machine, REM_DESC_MEMORY, 0,
		 (u64[3]){ REGION_PHYS, REGION_BYTES, REM_MEMORY_NVRAM }, 3);
	desc_add(&machine, REM_DESC_MEMORY, 1,
		 (u64[5]){ SECOND_PHYS, SECOND_BYTES, REM_MEMORY_NVRAM, 3, 9 },
		 5);
	desc_add(&machine, REM_DESC_MEMORY, 2,
		 (u64[3]){ 0, DRAM_BYTES, REM_MEMORY_DRAM }, 3);
	desc_finish(&machine);
}

static struct record_image image_of(u32 sequence)
{
	return build_image_of(sequence, REGION_PHYS, REGION_BYTES, &machine);
}

/* Slot 0 has the new image @newest, which is even, slot 1 the one before. */
static void make_block_of(u32 newest)
{
	struct record_image older = image_of(newest - 1);
	struct record_image newer = image_of(newest);

	memset(block, 0, REM_BLOCK_BYTES);
	build_block(block, REGION_BYTES, newest - 1);
	build_image(block, &older);
	build_image(block, &newer);
}

/* Slot 1 has the consumed image 11, slot 0 the new image 12. */
static void make_block(void)
{
	make_block_of(NEWEST);
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

static void each_stop_mode_is_entered(void)
{
	for (u32 mode = REM_MODE_DPM; mode <= REM_MODE_SNG; mode++) {
		make_block();
		memcpy(body(0) + offsetof(struct rem_body, stop_mode), &mode,
		       sizeof(mode));
		build_reseal(block, 0);
		CHECK(reason() == REM_BOOT_RESUME, "mode %u: reason %u", mode,
		      reason());
	}
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
			CHECK(decision.consume == NEWEST,
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
	CHECK(decision.reason == REM_COLD_CONSUMED_INVALID &&
		      decision.consume == NEWEST && decision.clear == 3,
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

/* What a cold boot stores, in its order, before it overwrites the image. */
static void close_as_cold_boot(u8 *media, const struct decision *decision)
{
	struct rem_word word = record_consumed(decision->consume);

	if (decision->consume)
		memcpy(media + REM_CONSUMED_OFFSET, &word, sizeof(word));
	for (u32 n = 0; n < REM_SLOTS; n++)
		if (decision->clear & 1u << n)
			memset(media + REM_COMMIT_OFFSET +
				       n * REM_COMMIT_STRIDE_BYTES,
			       0, sizeof(word));
}

/*
 * One boot reads @bytes at @at with their bits inverted, and boots cold; later the
 * same bytes read right. @second: of another such place, 0 = none.
 */
static void stays_closed(u32 at, u32 bytes, u32 second, const char *what)
{
	struct decision decision;
	u8 *media = malloc(REM_BLOCK_BYTES);

	memcpy(media, block, REM_BLOCK_BYTES);
	for (u32 i = 0; i < bytes; i++)
		block[at + i] ^= 0xff;
	if (second && second != at)
		block[second] ^= 0xff;
	decision = decide();
	CHECK(decision.reason != REM_BOOT_RESUME, "%s: entered %u", what,
	      decision.sequence);
	close_as_cold_boot(media, &decision);
	memcpy(block, media, REM_BLOCK_BYTES);
	decision = decide();
	CHECK(decision.reason != REM_BOOT_RESUME,
	      "%s %x: image %u is entered after a cold boot", what, at,
	      decision.sequence);
	free(media);
}

/* Any place that read damaged, then right, or two of them at once. */
static void cold_boot_closes_for_good(void)
{
	static const u32 sequences[] = { NEWEST, NEWEST + 1000 };
	static const u32 seconds[] = {
		0,
		REM_COMMIT_OFFSET + 3,
		REM_COMMIT_OFFSET + 4,
		REM_BODY_OFFSET,
		REM_BODY_OFFSET + 20,
		REM_COMMIT_OFFSET + REM_COMMIT_STRIDE_BYTES + 2,
	};

	for (u32 i = 0; i < GO_COUNT(sequences); i++)
		for (u32 j = 0; j < GO_COUNT(seconds); j++) {
			u32 newest = sequences[i], second = seconds[j];
			u32 older = REM_COMMIT_STRIDE_BYTES;

			make_block_of(newest);
			stays_closed(0, 4, second, "block");
			for (u32 at = 0; at < 8; at++) {
				make_block_of(newest);
				stays_closed(REM_CONSUMED_OFFSET + at, 1,
					     second, "consumed word");
				make_block_of(newest);
				stays_closed(REM_COMMIT_OFFSET + at, 1, second,
					     "newest commit word");
				make_block_of(newest);
				stays_closed(REM_COMMIT_OFFSET + older + at, 1,
					     second, "older commit word");
			}
			make_block_of(newest);
			stays_closed(REM_CONSUMED_OFFSET, 8, second,
				     "whole consumed word");
		}
}

static struct rem_event *event_at(u32 sequence, u32 n)
{
	return (struct rem_event *)(block + REM_TIMELINE_OFFSET +
				    sequence % REM_SLOTS *
					    REM_TIMELINE_STRIDE_BYTES) +
	       n;
}

static void put_event(u32 sequence, u32 n, u16 type)
{
	struct rem_event event = { .sequence = sequence, .type = type };

	event.value = 1;
	event.crc = crc32c(&event, offsetof(struct rem_event, crc));
	memcpy(event_at(sequence, n), &event, sizeof(event));
}

static u32 given_up(void)
{
	struct decision decision = decide();

	return rem_go_given_up(block, &decision);
}

/* NEWEST has been entered; or @consumed is above it, or there is no image at all. */
static void make_consumed(u32 consumed, bool has_image)
{
	struct rem_word word = record_consumed(consumed);

	make_block();
	memcpy(block + REM_CONSUMED_OFFSET, &word, sizeof(word));
	for (u32 n = 0; n < REM_SLOTS && !has_image; n++)
		memset(commit(n), 0, 8);
	CHECK(reason() == (has_image ? REM_COLD_ALREADY_CONSUMED :
				       REM_COLD_NOT_COMMITTED),
	      "reason %u", reason());
}

/*
 * Where the kernel writes (kernel/stop/timeline.c): after an image was entered, into
 * the part of Go; after a Stop that could not commit, of the next number, into the
 * part of that Stop.
 */
static void reset_of_go_is_named(u16 type, u32 right)
{
	make_consumed(NEWEST, true);
	CHECK(!given_up(), "no event");
	put_event(NEWEST, REM_EVENTS_GO + 3, type);
	CHECK(given_up() == right, "Go of an image: %u", given_up());
	event_at(NEWEST, REM_EVENTS_GO + 3)->value ^= 1;
	CHECK(!given_up(), "no checksum");

	make_consumed(NEWEST, true);
	put_event(NEWEST + 1, REM_EVENTS_STOP + 41, type);
	CHECK(given_up() == right, "refused Stop: %u", given_up());
	make_consumed(1, false);
	put_event(2, REM_EVENTS_LOADER - 1, type);
	CHECK(given_up() == right, "refused first Stop: %u", given_up());
	make_consumed(NEWEST + 3, true);
	put_event(NEWEST + 4, REM_EVENTS_STOP + 41, type);
	CHECK(given_up() == right, "refused after a cold boot: %u", given_up());
}

static void reset_before_is_not_named(u16 type)
{
	make_consumed(NEWEST, true);
	put_event(NEWEST - 1, REM_EVENTS_GO, type);
	put_event(NEWEST - 2, REM_EVENTS_GO + 1, type);
	put_event(NEWEST + 2, REM_EVENTS_STOP, type);
	CHECK(!given_up(), "of another Stop");
	make_block();
	put_event(NEWEST - 1, REM_EVENTS_GO, type);
	put_event(NEWEST, REM_EVENTS_STOP, type);
	CHECK(!given_up(), "there is an image to enter");
	make_consumed(NEWEST, true);
	put_event(NEWEST, REM_EVENTS_GO, type);
	memset(block, 0xff, sizeof(struct rem_block));
	CHECK(!given_up(), "another reason");
}

/* As a cold boot does with every event of both timelines. */
static u32 report_events(void)
{
	u32 count = 0;

	for (u32 n = 0; n < REM_SLOTS * REM_EVENTS_MAX; n++)
		count += rem_event_report(event_at(0, n));
	return count;
}

/* The kernel that boots cold has the same number for its next Stop. */
static void reset_of_go_is_named_once(u16 type, u32 reason)
{
	struct rem_event *event = event_at(NEWEST + 1, REM_EVENTS_STOP + 41);

	make_consumed(NEWEST, true);
	put_event(NEWEST, REM_EVENTS_GO, type);
	put_event(NEWEST + 1, REM_EVENTS_STOP + 41, type);
	put_event(NEWEST + 1, REM_EVENTS_STOP + 42, type);
	put_event(NEWEST + 1, REM_EVENTS_STOP, REM_EVENT_STOP_BEGIN);
	CHECK(given_up() == reason, "at first");
	CHECK(report_events() == 3, "all of its events, and no other");
	CHECK(!given_up(), "reported again");
	CHECK(event->value == (REM_EVENT_REPORTED | 1) &&
		      event->crc ==
			      crc32c(event, offsetof(struct rem_event, crc)),
	      "still an event, with its value");
	CHECK(!report_events(), "once");
	put_event(NEWEST + 1, REM_EVENTS_STOP + 43, type);
	CHECK(given_up() == reason, "the next Stop of that number");
}

static void cpu_that_ends_a_go_is_named(void)
{
	reset_of_go_is_named(REM_EVENT_GO_CPU_LOST, REM_COLD_CPU_LOST);
	reset_of_go_is_named(REM_EVENT_GO_MICROCODE, REM_COLD_MICROCODE);
	reset_of_go_is_named(REM_EVENT_GO_TSC, REM_COLD_TSC);
	reset_of_go_is_named(REM_EVENT_GO_DONE, 0);
	reset_before_is_not_named(REM_EVENT_GO_CPU_LOST);
	reset_before_is_not_named(REM_EVENT_GO_MICROCODE);
	reset_before_is_not_named(REM_EVENT_GO_TSC);
	reset_of_go_is_named_once(REM_EVENT_GO_CPU_LOST, REM_COLD_CPU_LOST);
	reset_of_go_is_named_once(REM_EVENT_GO_MICROCODE, REM_COLD_MICROCODE);
	reset_of_go_is_named_once(REM_EVENT_GO_TSC, REM_COLD_TSC);
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
	REFUSE(version, 1, REM_COLD_BODY_VERSION);
	REFUSE(version, 3, REM_COLD_BODY_VERSION);
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
	REFUSE(stop_mode, REM_MODE_SNG + 1, REM_COLD_BODY_FIELD);
	REFUSE(region_phys, 0, REM_COLD_BODY_FIELD);
	REFUSE(region_phys, UINT64_MAX, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, 0, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, UINT64_MAX, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, REM_BLOCK_BYTES, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, REGION_BYTES * 2, REM_COLD_BODY_FIELD);
	REFUSE(region_bytes, REGION_BYTES - 4096, REM_COLD_BODY_FIELD);
	REFUSE(region_phys, SECOND_PHYS, REM_COLD_BODY_FIELD);
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
	REFUSE(text_pages, 1, REM_COLD_BODY_FIELD);
	REFUSE(text_phys, 1ull << 63, REM_COLD_BODY_FIELD);
	REFUSE(text_counter, 1, REM_COLD_BODY_FIELD);
	REFUSE(rodata_page, 1, REM_COLD_BODY_FIELD);
	REFUSE(rodata_pages, 1, REM_COLD_BODY_FIELD);
	REFUSE(policy, 0, REM_COLD_BODY_FIELD);
	REFUSE(policy, 4, REM_COLD_BODY_FIELD);
	REFUSE(policy, REM_POLICY_HOLD, REM_COLD_BODY_FIELD);
	REFUSE(hold_s, 1, REM_COLD_BODY_FIELD);
}

/* A sum of text is of two ranges of NVRAM, in pages, in an image with a key. */
static void impossible_text_is_cold(void)
{
	const u64 low = REGION_PHYS + REM_BLOCK_BYTES;
	const u64 last = REGION_PHYS + REGION_BYTES - 4096;
	static const u32 cold = REM_COLD_BODY_FIELD;
	const struct {
		u64 key_counter, phys;
		u32 pages, rodata_page, rodata_pages, reason;
	} cases[] = {
		{ 1, low, 1, 1, 1, REM_BOOT_RESUME },
		{ 1, low, 2, 7, 3, REM_BOOT_RESUME },
		{ 1, last - 4096, 1, 1, 1, REM_BOOT_RESUME },
		{ 1, SECOND_PHYS, 1, 1, 1, REM_BOOT_RESUME },
		{ 0, low, 1, 1, 1, cold },
		{ 1, low, 0, 1, 1, cold },
		{ 1, low, 1, 1, 0, cold },
		{ 1, low, 2, 1, 1, cold }, /* they overlap */
		{ 1, low, 1, 0, 1, cold },
		{ 1, low + 8, 1, 1, 1, cold },
		{ 1, low - 4096, 1, 1, 1, cold }, /* in the block */
		{ 1, REGION_PHYS, 1, 0x1000, 1, cold },
		{ 1, REGION_PHYS - 4096, 1, 0x1000, 1, cold },
		{ 1, last, 1, 1, 1, cold },
		{ 1, last, 2, 2, 1, cold },
		{ 1, last - 4096, 1, 1, 2, cold },
		{ 1, low, 1, UINT32_MAX, 1, cold },
		{ 1, low, 1, UINT32_MAX, UINT32_MAX, cold },
		{ 1, low, REM_TEXT_PAGES_MAX, REM_TEXT_PAGES_MAX,
		  REM_TEXT_PAGES_MAX, REM_BOOT_RESUME },
		{ 1, low, REM_TEXT_PAGES_MAX + 1, REM_TEXT_PAGES_MAX + 1, 1,
		  cold },
		{ 1, low, 1, 1, REM_TEXT_PAGES_MAX + 1, cold },
		{ 1, UINT64_MAX - 4095, 1, 1, 1, cold },
		{ 1, UINT64_MAX - 4095, 1, UINT32_MAX, 1, cold },
		{ 1, 0, 1, (u32)(low >> 12), 1, cold },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++) {
		struct rem_body header;

		make_block();
		memcpy(&header, body(0), sizeof(header));
		header.key_counter = cases[i].key_counter;
		header.text_phys = cases[i].phys;
		header.text_pages = cases[i].pages;
		header.rodata_page = cases[i].rodata_page;
		header.rodata_pages = cases[i].rodata_pages;
		memcpy(body(0), &header, sizeof(header));
		build_reseal(block, 0);
		CHECK(reason() == cases[i].reason, "text %u: reason %u", i,
		      reason());
	}
}

/* What an image points to may be in any range of NVRAM, and nowhere else. */
static void any_range_of_nvram_is_entered(void)
{
	u64 end = SECOND_PHYS + SECOND_BYTES;

	REFUSE(entry_phys, SECOND_PHYS - 1, REM_COLD_BODY_FIELD);
	REFUSE(entry_phys, SECOND_PHYS, REM_BOOT_RESUME);
	REFUSE(entry_phys, end - 1, REM_BOOT_RESUME);
	REFUSE(entry_phys, end, REM_COLD_BODY_FIELD);
	REFUSE(entry_cr3, SECOND_PHYS, REM_BOOT_RESUME);
	REFUSE(entry_cr3, end - 4096, REM_BOOT_RESUME);
	REFUSE(entry_cr3, SECOND_PHYS - 4096, REM_COLD_BODY_FIELD);
	REFUSE(context_phys, end - 640, REM_BOOT_RESUME);
	REFUSE(context_phys, end - 632, REM_COLD_BODY_FIELD);
	REFUSE(context_phys, SECOND_PHYS - 8, REM_COLD_BODY_FIELD);
	/* DRAM is no range. */
	REFUSE(entry_phys, 0x1000, REM_COLD_BODY_FIELD);
}

/* The image's own table has other ranges; the machine is never asked. */
static u32 with_second_range(u64 base, u64 bytes)
{
	struct rem_desc_entry *second = &(
		(struct rem_desc_entry *)(body(0) + REM_BODY_HEADER_BYTES))[5];
	struct decision decision;

	make_block();
	CHECK(second->type == REM_DESC_MEMORY && second->key == 1, "which");
	second->value[0] = base;
	second->value[1] = bytes;
	build_reseal(block, 0);
	decision = decide();
	CHECK((decision.reason == REM_COLD_BODY_FIELD) == !!decision.wrong,
	      "what is wrong has a text");
	return decision.reason;
}

static void impossible_ranges_are_cold(void)
{
	static const struct {
		u64 base, bytes;
		u32 reason;
	} cases[] = {
		{ SECOND_PHYS, SECOND_BYTES, REM_BOOT_RESUME },
		{ SECOND_PHYS + 4096, SECOND_BYTES, REM_COLD_MEMORY_DIFFERS },
		{ SECOND_PHYS, 0, REM_COLD_BODY_FIELD },
		{ SECOND_PHYS + 8, SECOND_BYTES, REM_COLD_BODY_FIELD },
		{ SECOND_PHYS, SECOND_BYTES - 8, REM_COLD_BODY_FIELD },
		{ SECOND_PHYS, UINT64_MAX - 4095, REM_COLD_BODY_FIELD },
		{ UINT64_MAX - 4095, 4096, REM_COLD_MEMORY_DIFFERS },
		{ UINT64_MAX - 4095, 8192, REM_COLD_BODY_FIELD },
		/* Overlaps, and the wrong order. */
		{ REGION_PHYS, REGION_BYTES, REM_COLD_BODY_FIELD },
		{ REGION_PHYS + REGION_BYTES - 4096, 8192,
		  REM_COLD_BODY_FIELD },
		{ REGION_PHYS - 4096, 4096, REM_COLD_BODY_FIELD },
		{ REGION_PHYS + REGION_BYTES, 4096, REM_COLD_MEMORY_DIFFERS },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++)
		CHECK(with_second_range(cases[i].base, cases[i].bytes) ==
			      cases[i].reason,
		      "range %u: %u", i, reason());
}

/* Adjacent ranges are one memory: an object may lie in both. */
static void adjacent_ranges_are_one_memory(void)
{
	struct rem_desc_entry entry[REM_RANGES_MAX + 1];
	struct rem_body fake = { .region_phys = 0x1000,
				 .region_bytes = 0x1000 };
	u32 count = GO_COUNT(entry);

	for (u32 i = 0; i < count; i++)
		entry[i] = (struct rem_desc_entry){
			.type = REM_DESC_MEMORY,
			.value = { 0x1000 * (i + 1), 0x1000, REM_MEMORY_NVRAM },
		};
	CHECK(rem_ranges_wrong(&fake, entry, count), "too many");
	CHECK(!rem_ranges_wrong(&fake, entry, count - 1), "as many as allowed");
	CHECK(rem_nvram_contains(entry, count, 0x1000, 0x1000 * count), "all");
	CHECK(rem_nvram_contains(entry, count, 0x1fff, 2), "two");
	CHECK(!rem_nvram_contains(entry, count, 0xfff, 2), "before");
	CHECK(!rem_nvram_contains(entry, count, 0x2000, 0x1000 * count), "end");
	CHECK(!rem_nvram_contains(entry, count, 0x1000, 0), "nothing");
	CHECK(!rem_nvram_contains(entry, count, UINT64_MAX, 2), "wraps");
	entry[3].value[1] = 0xfff;
	CHECK(!rem_nvram_contains(entry, count, 0x4000, 0x1001), "a gap");
	CHECK(rem_nvram_contains(entry, count, 0x4000, 0xfff), "up to it");
}

/* Held is what would be entered on its own machine, and only by its policy. */
static void differing_machine_is_held(void)
{
	static const u32 hold_s = 30;
	struct decision decision;

	for (u32 policy = REM_POLICY_COLD; policy <= REM_POLICY_HOLD_COLD;
	     policy++) {
		bool holds = policy != REM_POLICY_COLD;

		make_block();
		memcpy(body(0) + offsetof(struct rem_body, policy), &policy, 4);
		if (holds)
			memcpy(body(0) + offsetof(struct rem_body, hold_s),
			       &hold_s, 4);
		build_reseal(block, 0);
		decision = decide();
		CHECK(decision.reason == REM_BOOT_RESUME &&
			      !rem_holds(&decision),
		      "the same machine: %u", decision.reason);
		machine.entry[ENTRIES - 1].value[1]++;
		decision = decide();
		CHECK(decision.reason == REM_COLD_ACPI_DIFFERS &&
			      rem_holds(&decision) == holds,
		      "policy %u", policy);
		rem_decide(block, REGION_PHYS, REGION_BYTES, &machine, true,
			   &decision);
		CHECK(!rem_holds(&decision), "a cold boot was requested");
		block[REM_BODY_OFFSET + REM_BODY_HEADER_BYTES] ^= 1;
		decision = decide();
		CHECK(!rem_holds(&decision), "a damaged image is held");
		machine.entry[ENTRIES - 1].value[1]--;
	}
}

/* As much as firmware reserves is no difference; a memory module is one. */
static void little_dram_is_no_difference(void)
{
	struct rem_desc_entry *dram = NULL;

	make_block();
	for (u32 i = 0; i < machine.count; i++)
		if (machine.entry[i].type == REM_DESC_MEMORY)
			dram = &machine.entry[i];
	CHECK(dram && dram->value[2] == REM_MEMORY_DRAM, "last of its type");
	for (u64 bytes = 0; bytes <= 2 * DRAM_BYTES; bytes += 0x80000) {
		bool near = bytes + REM_DRAM_TOLERANCE_BYTES >= DRAM_BYTES &&
			    bytes <= DRAM_BYTES + REM_DRAM_TOLERANCE_BYTES;

		dram->value[1] = bytes;
		CHECK(reason() == (near ? REM_BOOT_RESUME :
					  REM_COLD_MEMORY_DIFFERS),
		      "DRAM of %llx: %u", (unsigned long long)bytes, reason());
	}
	dram->value[1] = DRAM_BYTES;
	dram->value[3]++;
	CHECK(reason() == REM_COLD_MEMORY_DIFFERS, "another word");
	dram->value[3]--;
	/* Of NVRAM no byte. */
	dram[-1].value[1] += 4096;
	CHECK(reason() == REM_COLD_MEMORY_DIFFERS, "more NVRAM");
	dram[-1].value[1] -= 4096;
	dram[-1].value[4]++;
	CHECK(reason() == REM_COLD_MEMORY_DIFFERS, "another stamp");
	dram[-1].value[4]--;
	CHECK(reason() == REM_BOOT_RESUME, "the same again");
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

		u64 expected = saved.value[4];

		machine.entry[i].value[4]++;
		decision = decide();
		CHECK(decision.reason == of_type[saved.type], "type %u: %u",
		      saved.type, decision.reason);
		CHECK(decision.expected.value[4] == expected &&
			      decision.found.value[4] == expected + 1 &&
			      decision.found.type == saved.type,
		      "both are named");
		CHECK(decision.consume == NEWEST, "consumed");
		machine.entry[i] = saved;
	}
	CHECK(reason() == REM_BOOT_RESUME, "same machine again");
}

/* Entries that a description has no room for could differ. */
static void too_large_machine_is_cold(void)
{
	struct decision decision;

	make_block();
	machine.full = true;
	decision = decide();
	CHECK(decision.reason == REM_COLD_MACHINE_TOO_LARGE, "reason %u",
	      decision.reason);
	CHECK(decision.consume == NEWEST, "consumed");
	desc_write(&machine, block + REM_DESC_OFFSET);
	CHECK(get_u64(block + REM_DESC_OFFSET) != REM_DESC_MAGIC,
	      "the kernel gets a description that is not whole");
	machine.full = false;
	CHECK(reason() == REM_BOOT_RESUME, "a whole description again");
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
	each_stop_mode_is_entered();
	every_bit_flip_is_cold();
	every_truncation_is_cold();
	swapped_slots_are_cold();
	zeros_and_ones_are_cold();
	resume_is_one_shot();
	cold_boot_closes_for_good();
	cpu_that_ends_a_go_is_named();
	asked_is_cold_and_consumes();
	impossible_fields_are_cold();
	impossible_text_is_cold();
	any_range_of_nvram_is_entered();
	impossible_ranges_are_cold();
	adjacent_ranges_are_one_memory();
	differing_machine_is_held();
	little_dram_is_no_difference();
	unaligned_table_is_cold();
	other_machine_is_named();
	too_large_machine_is_cold();
	other_region_is_memory_differs();
	free(block);
}
