// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Slots: how a record changes at one instant and survives the loss of copies.
 *
 * Invariants: a committed half that holds is never written to; a word says
 * "committed" only when what it commits is on media; nothing that was
 * acknowledged is forgotten because copies are damaged: it is refused.
 */
#include "slot.h"

static rem_u64 word_of(rem_u32 sequence, rem_u32 check)
{
	return sequence | (rem_u64)check << 32;
}

static rem_u64 word_in_work(const struct pm_slot *slot, rem_u32 sequence)
{
	return word_of(sequence, pm_half_check(REM_PM_IN_WORK, slot->index,
					       sequence, NULL));
}

static void store_word(struct pm_env *env, rem_u8 *half, rem_u64 word)
{
	pm_store64(env, half, word);
	pm_flush(env, half, sizeof(word));
}

/* Of all copies of a half: it is being written, and holds nothing. */
static void mark_in_work(struct pm_env *env, const struct pm_slot *slot,
			 rem_u32 half, rem_u32 sequence)
{
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		store_word(env, pm_half_at(slot, copy, half),
			   word_in_work(slot, sequence));
	pm_fence(env);
}

static void write_bodies(struct pm_env *env, const struct pm_slot *slot,
			 rem_u32 half, const rem_u8 *body)
{
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		pm_copy(env,
			pm_half_at(slot, copy, half) +
				sizeof(struct rem_pm_word),
			body, PM_BODY_BYTES);
	pm_fence(env);
}

/* The first word commits; the others are for when it is damaged. */
static void commit_words(struct pm_env *env, const struct pm_slot *slot,
			 rem_u32 half, rem_u64 word)
{
	store_word(env, pm_half_at(slot, 0, half), word);
	pm_fence(env);
	for (int copy = 1; copy < REM_PM_COPIES; copy++)
		store_word(env, pm_half_at(slot, copy, half), word);
	pm_fence(env);
}

void pm_slot_write(struct pm_env *env, const struct pm_slot *slot,
		   rem_u32 sequence, const void *half)
{
	const rem_u8 *body = (const rem_u8 *)half + sizeof(struct rem_pm_word);
	rem_u64 word =
		word_of(sequence, pm_half_check(REM_PM_COMMITTED, slot->index,
						sequence, body));

	mark_in_work(env, slot, sequence, sequence);
	write_bodies(env, slot, sequence, body);
	commit_words(env, slot, sequence, word);
}

static void repair_holding(struct pm_env *env, const struct pm_slot *slot,
			   int copy, const struct pm_verdict *holds)
{
	rem_u8 *half = pm_half_at(slot, copy, holds->sequence);
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
	rem_u8 *half = pm_half_at(slot, copy, next);
	rem_u8 seen[REM_PM_HALF_BYTES];
	enum pm_half_state state;
	rem_u32 sequence = 0;

	memcpy(seen, half, sizeof(seen));
	state = pm_half_judge(seen, slot->index, next % REM_PM_HALVES,
			      &sequence);
	if (state == PM_HALF_COMMITTED ||
	    (state == PM_HALF_IN_WORK && sequence == next))
		return;
	store_word(env, half, word_in_work(slot, next));
	pm_fence(env);
}

void pm_slot_repair(struct pm_env *env, const struct pm_slot *slot,
		    const struct pm_verdict *holds)
{
	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		repair_holding(env, slot, copy, holds);
		repair_other(env, slot, copy, holds->sequence + 1);
	}
}

void pm_slot_first(struct pm_env *env, const struct pm_slot *slot,
		   const void *half, bool ordered)
{
	const rem_u8 *body = (const rem_u8 *)half + sizeof(struct rem_pm_word);
	rem_u64 word = word_of(1, pm_half_check(REM_PM_COMMITTED, slot->index,
						1, body));

	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		pm_zero(env, slot->copy[copy], REM_PM_SLOT_BYTES);
		pm_copy(env, pm_half_at(slot, copy, 1) + sizeof(word), body,
			PM_BODY_BYTES);
	}
	if (ordered)
		pm_fence(env);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		store_word(env, pm_half_at(slot, copy, 1), word);
	if (ordered)
		pm_fence(env);
	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		store_word(env, pm_half_at(slot, copy, 0),
			   word_in_work(slot, 2));
}
