/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Invariants kept here:
 *  1. Only a slot whose commit word covers its body may be entered.
 *  2. Only a slot newer than the consumed word may be entered. A cold boot, which
 *     overwrites the image, first closes every slot that a later boot could enter,
 *     also if what reads damaged now reads right then: by the consumed word, and
 *     by a commit word of zero where a sequence is not known for certain.
 *  3. Every refusal has a reason.
 *  6. An image is entered only on the machine that was stopped.
 * Damage in either slot refuses both: the damaged word may have been the newest,
 * and then the older image must not be entered.
 */
#include "record.h"

#include "crc32c.h"
#include "interval.h"

/* The content of a slot. */
enum slot_state {
	SLOT_EMPTY,
	SLOT_COMMITTED,
	SLOT_DAMAGED,
};

/*
 * The sequence of a Stop is one more than any before it. A word that is further
 * ahead of the consumed word is damaged; to consume it would use numbers up.
 */
#define SEQUENCE_GAP_MAX 16

struct slot {
	enum slot_state state;
	u32 reason;   /* of the damage */
	u32 sequence; /* of the word */
	struct rem_body body;
};

struct rem_word record_consumed(u32 sequence)
{
	u32 seed[2] = { REM_WORD_CONSUMED, sequence };

	return (struct rem_word){ sequence, crc32c(seed, sizeof(seed)) };
}

struct rem_word record_commit(u32 sequence, u32 body_crc)
{
	u32 seed[3] = { REM_WORD_COMMIT, sequence, body_crc };

	return (struct rem_word){ sequence, crc32c(seed, sizeof(seed)) };
}

static struct rem_word read_word(const u8 *at)
{
	struct rem_word word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static bool header_checks(const struct rem_body *body)
{
	return crc32c(body, REM_BODY_HEADER_CRC_BYTES) == body->header_crc;
}

/* REM_BOOT_RESUME, or the first reason why the header cannot be trusted. */
static u32 judge_header(const struct rem_body *body, u32 sequence)
{
	if (body->magic != REM_BODY_MAGIC)
		return REM_COLD_BODY_MAGIC;
	if (body->version != REM_VERSION)
		return REM_COLD_BODY_VERSION;
	if (body->body_bytes < REM_BODY_HEADER_BYTES ||
	    body->body_bytes > REM_BODY_STRIDE_BYTES || body->body_bytes % 16)
		return REM_COLD_BODY_SIZE;
	if (!header_checks(body))
		return REM_COLD_BODY_CRC;
	if (body->sequence != sequence)
		return REM_COLD_COMMIT_DAMAGED;
	return REM_BOOT_RESUME;
}

static u32 body_crc(const struct rem_body *header, const u8 *body)
{
	u32 crc = crc32c_add(CRC32C_BEGIN, header, sizeof(*header));

	crc = crc32c_add(crc, body + sizeof(*header),
			 header->body_bytes - sizeof(*header));
	return crc32c_end(crc);
}

static void check_slot(const u8 *block, u32 n, struct slot *slot)
{
	struct rem_word word = read_word(block + REM_COMMIT_OFFSET +
					 n * REM_COMMIT_STRIDE_BYTES);
	const u8 *body = block + REM_BODY_OFFSET + n * REM_BODY_STRIDE_BYTES;

	*slot = (struct slot){ .state = SLOT_EMPTY };
	if (!word.sequence && !word.check)
		return;
	slot->state = SLOT_DAMAGED;
	slot->sequence = word.sequence;
	memcpy(&slot->body, body, sizeof(slot->body));

	if (!word.sequence || word.sequence % REM_SLOTS != n) {
		slot->reason = REM_COLD_COMMIT_DAMAGED;
		return;
	}
	slot->reason = judge_header(&slot->body, word.sequence);
	if (slot->reason != REM_BOOT_RESUME)
		return;
	if (record_commit(word.sequence, body_crc(&slot->body, body)).check !=
	    word.check) {
		slot->reason = REM_COLD_BODY_CRC;
		return;
	}
	slot->state = SLOT_COMMITTED;
}

/*
 * The sequence by which slot @n could be entered later, 0 = none. What reads
 * damaged now may read right at a later boot. Then the sequence is that of its
 * header or, if that is damaged too, that of its word, if it is plausible.
 */
static u32 slot_closes(const struct slot *slot, u32 n, u32 consumed)
{
	const struct rem_body *body = &slot->body;

	if (slot->state == SLOT_EMPTY)
		return 0;
	if (slot->state == SLOT_COMMITTED)
		return slot->sequence;
	if (body->magic == REM_BODY_MAGIC && header_checks(body) &&
	    body->sequence % REM_SLOTS == n)
		return body->sequence;
	if (slot->sequence > consumed &&
	    slot->sequence - consumed <= SEQUENCE_GAP_MAX &&
	    slot->sequence % REM_SLOTS == n)
		return slot->sequence;
	return 0;
}

static u32 judge_block(const u8 *at)
{
	struct rem_block block;

	memcpy(&block, at, sizeof(block));
	if (block.magic != REM_BLOCK_MAGIC)
		return REM_COLD_NO_BLOCK;
	if (block.version != REM_VERSION ||
	    block.block_bytes != REM_BLOCK_BYTES || block.reserved2 ||
	    block.reserved[0] || block.reserved[1] || block.reserved[2] ||
	    block.reserved[3] ||
	    block.crc != crc32c(&block, offsetof(struct rem_block, crc)))
		return REM_COLD_BLOCK_VERSION;
	return REM_BOOT_RESUME;
}

static bool desc_placed(const struct rem_body *body)
{
	u64 bytes = (u64)body->desc_count * sizeof(struct rem_desc_entry);

	return body->desc_count && body->desc_count <= REM_DESC_ENTRIES_MAX &&
	       body->desc_offset % 8 == 0 &&
	       range_inside(body->desc_offset, bytes, REM_BODY_HEADER_BYTES,
			    body->body_bytes - REM_BODY_HEADER_BYTES);
}

/* The region by the image's header, as an entry to print. */
static struct rem_desc_entry region_entry(u64 phys, u64 bytes)
{
	return (struct rem_desc_entry){
		.type = REM_DESC_MEMORY,
		.value = { phys, bytes, REM_MEMORY_NVRAM },
	};
}

/* The newest committed image is @body, in the slot of its parity. */
static u32 judge_image(const u8 *block, u64 region_phys, u64 region_bytes,
		       const struct desc *found, struct decision *decision)
{
	const struct rem_body *body = &decision->body;
	const u8 *table;
	u32 reason;

	if (!desc_placed(body)) {
		decision->wrong =
			"the machine description is outside of the body";
		return REM_COLD_BODY_FIELD;
	}
	table = block + REM_BODY_OFFSET +
		decision->slot * REM_BODY_STRIDE_BYTES + body->desc_offset;
	decision->wrong = rem_body_wrong(body, (const void *)table);
	if (decision->wrong)
		return REM_COLD_BODY_FIELD;
	/* What is left out could differ. */
	if (found->full)
		return REM_COLD_MACHINE_TOO_LARGE;
	reason = desc_compare(table, body->desc_count, found,
			      &decision->expected, &decision->found);
	if (reason != REM_BOOT_RESUME)
		return reason;
	if (body->region_phys != region_phys ||
	    body->region_bytes != region_bytes) {
		decision->expected =
			region_entry(body->region_phys, body->region_bytes);
		decision->found = region_entry(region_phys, region_bytes);
		return REM_COLD_MEMORY_DIFFERS;
	}
	return REM_BOOT_RESUME;
}

static u32 judge(const u8 *block, const struct slot *slot, u32 consumed,
		 u64 region_phys, u64 region_bytes, const struct desc *found,
		 struct decision *decision)
{
	u32 newest = slot[1].sequence > slot[0].sequence;
	u32 reason = judge_block(block);

	if (reason != REM_BOOT_RESUME)
		return reason;
	if (!consumed)
		return REM_COLD_CONSUMED_INVALID;
	for (u32 i = 0; i < REM_SLOTS; i++) {
		u32 n = i ? !newest : newest;

		if (slot[n].state == SLOT_DAMAGED) {
			decision->slot = n;
			decision->sequence = slot[n].sequence;
			return slot[n].reason;
		}
	}
	if (slot[newest].state == SLOT_EMPTY)
		return REM_COLD_NOT_COMMITTED;
	decision->slot = newest;
	decision->sequence = slot[newest].sequence;
	if (slot[newest].sequence <= consumed)
		return REM_COLD_ALREADY_CONSUMED;
	decision->body = slot[newest].body;
	return judge_image(block, region_phys, region_bytes, found, decision);
}

/* Returns the last sequence that was consumed, 0 = none, or the word is damaged. */
static u32 check_slots(const u8 *block, struct slot slot[REM_SLOTS])
{
	struct rem_word word = read_word(block + REM_CONSUMED_OFFSET);

	for (u32 n = 0; n < REM_SLOTS; n++)
		check_slot(block, n, &slot[n]);
	return word.sequence && record_consumed(word.sequence).check ==
					word.check ?
		       word.sequence :
		       0;
}

/* What closes the images of a block: see struct decision. */
static void find_open(const struct slot slot[REM_SLOTS], u32 consumed,
		      struct decision *decision)
{
	for (u32 n = 0; n < REM_SLOTS; n++) {
		u32 closes = slot_closes(&slot[n], n, consumed);

		if (closes > consumed && closes > decision->consume)
			decision->consume = closes;
		if (slot[n].state == SLOT_DAMAGED ||
		    (slot[n].state == SLOT_COMMITTED && !consumed))
			decision->clear |= 1u << n;
	}
}

void rem_decide(const u8 *block, u64 region_phys, u64 region_bytes,
		const struct desc *found, bool cold_requested,
		struct decision *ret_decision)
{
	struct decision decision = { .reason = 0 };
	struct slot slot[REM_SLOTS];
	u32 consumed = check_slots(block, slot);

	decision.reason = judge(block, slot, consumed, region_phys,
				region_bytes, found, &decision);
	if (cold_requested)
		decision.reason = REM_COLD_ASKED;
	find_open(slot, consumed, &decision);
	*ret_decision = decision;
}

bool rem_block_open(const u8 *block)
{
	struct decision decision = { .reason = judge_block(block) };
	struct slot slot[REM_SLOTS];

	if (decision.reason != REM_BOOT_RESUME)
		return false;
	find_open(slot, check_slots(block, slot), &decision);
	return decision.consume || decision.clear;
}

bool rem_holds(const struct decision *decision)
{
	u32 policy = decision->body.policy;

	return decision->reason >= REM_COLD_KERNEL_DIFFERS &&
	       decision->reason <= REM_COLD_TREE_DIFFERS &&
	       (policy == REM_POLICY_HOLD || policy == REM_POLICY_HOLD_COLD);
}

/* Why a Go ended in a reset, by an event that no boot has reported yet; or 0. */
static u32 event_reason(const struct rem_event *event)
{
	u32 reason = 0;

	if (event->type == REM_EVENT_GO_CPU_LOST)
		reason = REM_COLD_CPU_LOST;
	if (event->type == REM_EVENT_GO_MICROCODE)
		reason = REM_COLD_MICROCODE;
	if (event->type == REM_EVENT_GO_TSC)
		reason = REM_COLD_TSC;
	if (!reason || event->value & REM_EVENT_REPORTED ||
	    event->crc != crc32c(event, offsetof(struct rem_event, crc)))
		return 0;
	return reason;
}

/* In any part: after a Stop that could not commit, Go writes into the Stop's. */
static u32 given_up(const u8 *block, u32 sequence)
{
	const u8 *area = block + REM_TIMELINE_OFFSET +
			 sequence % REM_SLOTS * REM_TIMELINE_STRIDE_BYTES;

	for (u32 n = 0; n < REM_EVENTS_MAX; n++) {
		const u8 *at = area + n * sizeof(struct rem_event);
		struct rem_event event;
		u32 reason;

		if (get_u32(at + offsetof(struct rem_event, sequence)) !=
		    sequence)
			continue;
		memcpy(&event, at, sizeof(event));
		reason = event_reason(&event);
		if (reason)
			return reason;
	}
	return 0;
}

u32 rem_go_given_up(const u8 *block, const struct decision *decision)
{
	u32 consumed = read_word(block + REM_CONSUMED_OFFSET).sequence;
	u32 reason;

	if (decision->reason != REM_COLD_ALREADY_CONSUMED &&
	    decision->reason != REM_COLD_NOT_COMMITTED)
		return 0;
	/*
	 * A Stop that could not commit has no record. Its number is the next one, by
	 * the consumed word: the commit words may be older, or zero.
	 */
	reason = given_up(block, consumed + 1);
	return reason ? reason : given_up(block, consumed);
}

bool rem_event_report(struct rem_event *event)
{
	if (!event_reason(event))
		return false;
	event->value |= REM_EVENT_REPORTED;
	event->crc = crc32c(event, offsetof(struct rem_event, crc));
	return true;
}
