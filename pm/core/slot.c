// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Slots: how a record changes at one instant and survives the loss of copies.
 *
 * Invariants: a committed half that holds is never written to; a word says
 * "committed" only when what it commits is on media; nothing that was
 * acknowledged is forgotten because copies are damaged: it is refused.
 */
#include "slot.h"

enum half_state {
	HALF_DAMAGED,
	HALF_IN_WORK,
	HALF_COMMITTED,
};

rem_u32 pm_check(rem_u32 kind, rem_u32 index, rem_u32 sequence,
		 const void *body, size_t bytes)
{
	const rem_u32 head[] = { kind, index, sequence };
	rem_u32 crc = pm_crc32c_add(PM_CRC_BEGIN, head, sizeof(head));

	crc = ~pm_crc32c_add(crc, body, bytes);
	return crc ? crc : 1;
}

static rem_u32 check_of(rem_u32 kind, rem_u32 index, rem_u32 sequence,
			const void *body)
{
	if (PM_MUTANT(PM_MUTANT_CHECK_WITHOUT_INDEX))
		index = 0;
	if (PM_MUTANT(PM_MUTANT_CHECK_WITHOUT_BODY))
		body = NULL;
	return pm_check(kind, index, sequence, body, body ? PM_BODY_BYTES : 0);
}

static rem_u64 word_of(rem_u32 sequence, rem_u32 check)
{
	return sequence | (rem_u64)check << 32;
}

static rem_u64 word_in_work(const struct pm_slot *slot, rem_u32 sequence)
{
	return word_of(sequence,
		       check_of(REM_PM_IN_WORK, slot->index, sequence, NULL));
}

static rem_u8 *half_at(const struct pm_slot *slot, int copy, rem_u32 sequence)
{
	return slot->copy[copy] + sequence % REM_PM_HALVES * REM_PM_HALF_BYTES;
}

/* @half is a copy in volatile memory: media may not change under the check. */
static enum half_state state_of(const rem_u8 *half, rem_u32 index,
				rem_u32 parity, rem_u32 *ret_sequence)
{
	struct rem_pm_word word;

	memcpy(&word, half, sizeof(word));
	if (!word.sequence || word.sequence > REM_PM_SEQUENCE_LAST ||
	    word.sequence % REM_PM_HALVES != parity)
		return HALF_DAMAGED;
	*ret_sequence = word.sequence;
	if (word.check == check_of(REM_PM_COMMITTED, index, word.sequence,
				   half + sizeof(word)))
		return HALF_COMMITTED;
	if (word.check == check_of(REM_PM_IN_WORK, index, word.sequence, NULL))
		return HALF_IN_WORK;
	return HALF_DAMAGED;
}

/* All that is found of one slot. */
struct findings {
	enum half_state state[REM_PM_COPIES][REM_PM_HALVES];
	rem_u32 sequence[REM_PM_COPIES][REM_PM_HALVES];
	bool conflict; /* two committed records have one sequence */
};

static void look(const struct pm_slot *slot, struct findings *found,
		 struct pm_verdict *best)
{
	rem_u8 half[REM_PM_HALF_BYTES];

	memset(found, 0, sizeof(*found));
	best->sequence = 0;
	best->damaged = 0;
	best->whole = false;
	memset(best->half, 0, sizeof(best->half));
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		for (rem_u32 parity = 0; parity < REM_PM_HALVES; parity++) {
			rem_u32 *sequence = &found->sequence[copy][parity];
			enum half_state state;

			memcpy(half, half_at(slot, copy, parity), sizeof(half));
			state = state_of(half, slot->index, parity, sequence);
			found->state[copy][parity] = state;
			best->damaged += state == HALF_DAMAGED;
			if (state != HALF_COMMITTED)
				continue;
			if (*sequence > best->sequence) {
				best->sequence = *sequence;
				memcpy(best->half, half, sizeof(half));
				found->conflict = false;
			} else if (*sequence == best->sequence &&
				   memcmp(best->half, half, sizeof(half))) {
				found->conflict = true;
			}
		}
	}
}

/* Whether the other half of a copy shows that no newer record was finished. */
static bool shows_no_newer(const struct findings *found, int copy,
			   rem_u32 sequence)
{
	rem_u32 other = (sequence + 1) % REM_PM_HALVES;
	rem_u32 there = found->sequence[copy][other];

	switch (found->state[copy][other]) {
	case HALF_COMMITTED:
		return there < sequence;
	case HALF_IN_WORK:
		return there == sequence + 1;
	default:
		return PM_MUTANT(PM_MUTANT_ROLL_BACK);
	}
}

int pm_slot_judge(const struct pm_slot *slot, struct pm_verdict *ret)
{
	struct findings found;
	bool known = false;

	look(slot, &found, ret);
	if (!ret->sequence || found.conflict)
		return -EUCLEAN;
	ret->whole = !ret->damaged;
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		rem_u32 parity = ret->sequence % REM_PM_HALVES;
		bool holds = found.state[copy][parity] == HALF_COMMITTED &&
			     found.sequence[copy][parity] == ret->sequence;
		bool shows = shows_no_newer(&found, copy, ret->sequence);

		known |= shows;
		ret->whole &= holds && shows;
	}
	return known ? 0 : -EUCLEAN;
}

static void store_word(struct pm_env *env, rem_u8 *half, rem_u64 word)
{
	pm_store64(env, half, word);
	pm_flush(env, half, sizeof(word));
}

void pm_slot_write(struct pm_env *env, const struct pm_slot *slot,
		   rem_u32 sequence, const void *half)
{
	const rem_u8 *body = (const rem_u8 *)half + sizeof(struct rem_pm_word);
	rem_u64 word = word_of(sequence, check_of(REM_PM_COMMITTED, slot->index,
						  sequence, body));
	rem_u32 where = sequence;
	int copies = PM_MUTANT(PM_MUTANT_ONE_COPY) ? 1 : REM_PM_COPIES;

	if (PM_MUTANT(PM_MUTANT_SAME_HALF))
		where++;
	for (int copy = 0; copy < copies; copy++)
		if (!PM_MUTANT(PM_MUTANT_NO_IN_WORK))
			store_word(env, half_at(slot, copy, where),
				   word_in_work(slot, sequence));
	pm_fence(env);
	for (int copy = 0; copy < copies; copy++)
		pm_copy(env, half_at(slot, copy, where) + sizeof(word), body,
			PM_BODY_BYTES);
	if (!PM_MUTANT(PM_MUTANT_NO_BODY_FENCE))
		pm_fence(env);
	if (PM_MUTANT(PM_MUTANT_NO_COMMIT_FLUSH)) {
		for (int copy = 0; copy < copies; copy++)
			pm_store64(env, half_at(slot, copy, where), word);
		return;
	}
	store_word(env, half_at(slot, 0, where), word);
	pm_fence(env);
	for (int copy = 1; copy < copies; copy++)
		store_word(env, half_at(slot, copy, where), word);
	pm_fence(env);
}

static void repair_holding(struct pm_env *env, const struct pm_slot *slot,
			   int copy, const struct pm_verdict *holds)
{
	rem_u8 *half = half_at(slot, copy, holds->sequence);
	rem_u64 word;

	if (!memcmp(half, holds->half, REM_PM_HALF_BYTES))
		return;
	store_word(env, half, word_in_work(slot, holds->sequence));
	pm_fence(env);
	memcpy(&word, holds->half, sizeof(word));
	pm_copy(env, half + sizeof(word), holds->half + sizeof(word),
		PM_BODY_BYTES);
	pm_fence(env);
	store_word(env, half, word);
	pm_fence(env);
}

static void repair_other(struct pm_env *env, const struct pm_slot *slot,
			 int copy, rem_u32 next)
{
	rem_u8 *half = half_at(slot, copy, next);
	rem_u8 seen[REM_PM_HALF_BYTES];
	enum half_state state;
	rem_u32 sequence = 0;

	memcpy(seen, half, sizeof(seen));
	state = state_of(seen, slot->index, next % REM_PM_HALVES, &sequence);
	if (state == HALF_COMMITTED ||
	    (state == HALF_IN_WORK && sequence == next))
		return;
	store_word(env, half, word_in_work(slot, next));
	pm_fence(env);
}

void pm_slot_repair(struct pm_env *env, const struct pm_slot *slot,
		    const struct pm_verdict *holds)
{
	if (PM_MUTANT(PM_MUTANT_NO_REPAIR))
		return;
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		repair_holding(env, slot, copy, holds);
		repair_other(env, slot, copy, holds->sequence + 1);
	}
}

void pm_slot_first(struct pm_env *env, const struct pm_slot *slot,
		   const void *half, bool ordered)
{
	const rem_u8 *body = (const rem_u8 *)half + sizeof(struct rem_pm_word);
	rem_u64 word =
		word_of(1, check_of(REM_PM_COMMITTED, slot->index, 1, body));

	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		pm_zero(env, slot->copy[copy], REM_PM_SLOT_BYTES);
		pm_copy(env, half_at(slot, copy, 1) + sizeof(word), body,
			PM_BODY_BYTES);
	}
	if (ordered)
		pm_fence(env);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		store_word(env, half_at(slot, copy, 1), word);
	if (ordered)
		pm_fence(env);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		store_word(env, half_at(slot, copy, 0), word_in_work(slot, 2));
}
