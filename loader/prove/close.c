/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The decision over any record block:
 *
 *  - it reads nothing outside of the block, and ends; what it passes to the checks of
 *    a body and of its table lies in the block;
 *  - an image that is entered is newer than what was consumed and in the slot of its
 *    parity, with a right header;
 *  - what a cold boot closes is never entered after it, also if what read damaged
 *    reads right then (invariant 2).
 *
 * Checksums are any numbers (any_crc.c), and so is what the checks of body and table
 * find: judge.c proves the body's.
 */
#include "prove.h"

#include "../core/desc.h"
#include "../../format/rem_judge.h"

static const char *any_body_wrong(const struct rem_body *body,
				  const struct rem_desc_entry *entry);
static u32 any_desc_compare(const u8 *expected, u32 expected_count,
			    const struct desc *found,
			    struct rem_desc_entry *ret_expected,
			    struct rem_desc_entry *ret_found);

#define rem_body_wrong any_body_wrong
#define desc_compare any_desc_compare
#include "../core/record.c"

static u8 block[REM_TIMELINE_OFFSET + REM_SLOTS * REM_TIMELINE_STRIDE_BYTES];
static struct desc found;

static void check_readable(const void *entries, u32 count)
{
	assert(count && count <= REM_DESC_ENTRIES_MAX);
	assert(__CPROVER_r_ok(entries, count * sizeof(struct rem_desc_entry)));
}

static const char *any_body_wrong(const struct rem_body *body,
				  const struct rem_desc_entry *entry)
{
	check_readable(entry, body->desc_count);
	return nondet_bool() ? "wrong" : NULL;
}

static u32 any_desc_compare(const u8 *expected, u32 expected_count,
			    const struct desc *machine,
			    struct rem_desc_entry *ret_expected,
			    struct rem_desc_entry *ret_found)
{
	(void)machine;
	(void)ret_expected;
	(void)ret_found;
	check_readable(expected, expected_count);
	return nondet_u32();
}

static void store_word(u32 offset, struct rem_word word)
{
	memcpy(block + offset, &word, sizeof(word));
}

/* As loader/main/enter.c does it, on memory that holds what is stored in it. */
static void close_images(const struct decision *decision)
{
	const struct rem_word none = { 0 };

	if (decision->consume)
		store_word(REM_CONSUMED_OFFSET,
			   record_consumed(decision->consume));
	for (u32 n = 0; n < REM_SLOTS; n++)
		if (decision->clear & 1u << n)
			store_word(REM_COMMIT_OFFSET +
					   n * REM_COMMIT_STRIDE_BYTES,
				   none);
}

static void check_entered(const struct decision *decision, u64 region_phys)
{
	u32 consumed = get_u32(block + REM_CONSUMED_OFFSET);

	assert(decision->slot < REM_SLOTS);
	assert(decision->sequence % REM_SLOTS == decision->slot);
	assert(decision->sequence > consumed);
	assert(decision->body.sequence == decision->sequence);
	assert(decision->body.magic == REM_BODY_MAGIC);
	assert(decision->body.region_phys == region_phys);
}

int main(void)
{
	u64 region_phys = nondet_u64(), region_bytes = nondet_u64();
	struct decision decision, next;

	__CPROVER_havoc_object(block);
	__CPROVER_havoc_object(&found);
	rem_decide(block, region_phys, region_bytes, &found, nondet_bool(),
		   &decision);
	if (decision.reason == REM_BOOT_RESUME)
		check_entered(&decision, region_phys);
	close_images(&decision);
	rem_decide(block, region_phys, region_bytes, &found, false, &next);
	assert(next.reason != REM_BOOT_RESUME);
	return 0;
}
