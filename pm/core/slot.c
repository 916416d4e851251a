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

/*
 * Lines that media has lost are zeros then, which is damage as before, but may be
 * stored to. True: the half was read, into @seen.
 */
static bool make_whole(struct pm_env *env, rem_u8 *half, rem_u8 *seen)
{
	if (pm_fetch(seen, half, REM_PM_HALF_BYTES))
		return true;
	pm_zero(env, half, REM_PM_HALF_BYTES);
	pm_fence(env);
	return false;
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

/* One copy of what holds; the word last, so that it commits a body that is on media. */
static void write_half(struct pm_env *env, rem_u8 *half,
		       const struct pm_verdict *holds)
{
	rem_u64 word;

	memcpy(&word, holds->half, sizeof(word));
	pm_copy(env, half + sizeof(word), holds->half + sizeof(word),
		PM_BODY_BYTES);
	pm_fence(env);
	store_word(env, half, word);
	pm_fence(env);
}

static void repair_holding(struct pm_env *env, const struct pm_slot *slot,
			   int copy, const struct pm_verdict *holds)
{
	rem_u8 *half = pm_half_at(slot, copy, holds->sequence);
	rem_u8 seen[REM_PM_HALF_BYTES];

	if (make_whole(env, half, seen) &&
	    !memcmp(seen, holds->half, REM_PM_HALF_BYTES))
		return;
	store_word(env, half, word_in_work(slot, holds->sequence));
	pm_fence(env);
	write_half(env, half, holds);
}

static void repair_other(struct pm_env *env, const struct pm_slot *slot,
			 int copy, rem_u32 next)
{
	rem_u8 *half = pm_half_at(slot, copy, next);
	rem_u8 seen[REM_PM_HALF_BYTES];
	enum pm_half_state state;
	rem_u32 sequence = 0;

	make_whole(env, half, seen);
	state = pm_half_fetch(slot, copy, next, seen, &sequence);
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

/*
 * The body first: while no copy holds the record, a word "in work" would say that
 * it was never committed, and bring the one before it back.
 */
static void restore_holding(struct pm_env *env, const struct pm_slot *slot,
			    int copy, const struct pm_verdict *holds)
{
	rem_u8 *half = pm_half_at(slot, copy, holds->sequence);
	rem_u8 seen[REM_PM_HALF_BYTES];

	make_whole(env, half, seen);
	write_half(env, half, holds);
}

/* A later record than the last one committed is nobody's. */
static void restore_other(struct pm_env *env, const struct pm_slot *slot,
			  int copy, rem_u32 next)
{
	rem_u8 *half = pm_half_at(slot, copy, next);
	rem_u8 seen[REM_PM_HALF_BYTES];
	rem_u32 sequence = 0;

	make_whole(env, half, seen);
	if (pm_half_fetch(slot, copy, next, seen, &sequence) ==
		    PM_HALF_COMMITTED &&
	    sequence < next)
		return;
	store_word(env, half, word_in_work(slot, next));
	pm_fence(env);
}

static bool says(const struct pm_verdict *found, const struct pm_verdict *holds)
{
	return found->sequence == holds->sequence &&
	       !memcmp(found->half, holds->half, REM_PM_HALF_BYTES);
}

int pm_slot_restore(struct pm_env *env, const struct pm_slot *slot,
		    rem_u32 sequence, const void *half,
		    struct pm_verdict *ret_found)
{
	struct pm_verdict holds = { .sequence = sequence }, again;
	rem_u64 word = word_of(
		sequence, pm_half_check(REM_PM_COMMITTED, slot->index, sequence,
					(const rem_u8 *)half + sizeof(word)));
	bool known;

	memcpy(holds.half, half, sizeof(holds.half));
	memcpy(holds.half, &word, sizeof(word));
	known = !pm_slot_judge(slot, ret_found) && says(ret_found, &holds);
	if (known && ret_found->whole)
		return 0;
	if (known) {
		pm_slot_repair(env, slot, &holds);
	} else {
		for (int copy = 0; copy < REM_PM_COPIES; copy++)
			restore_holding(env, slot, copy, &holds);
		for (int copy = 0; copy < REM_PM_COPIES; copy++)
			restore_other(env, slot, copy, sequence + 1);
	}
	if (pm_slot_judge(slot, &again) || !again.whole ||
	    !says(&again, &holds))
		return -EUCLEAN;
	return 1;
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

bool pm_slot_is_unmade(const struct pm_slot *slot, int copy, const void *half,
		       rem_u32 any)
{
	const rem_u8 *body = (const rem_u8 *)half + sizeof(struct rem_pm_word);
	rem_u64 first[REM_PM_SLOT_BYTES / sizeof(rem_u64)] = { 0 };
	rem_u64 *const made = first + REM_PM_HALF_BYTES / sizeof(rem_u64);

	first[0] = word_in_work(slot, 2);
	memcpy(made + 1, body, PM_BODY_BYTES);
	made[0] = word_of(1, pm_half_check(REM_PM_COMMITTED, slot->index, 1,
					   body));
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		bool free = first + i >= made && any >> (first + i - made) & 1;
		rem_u64 word;

		if (!pm_load64(slot->copy[copy] + i * sizeof(word), &word) ||
		    (word && word != first[i] && !free))
			return false;
	}
	return true;
}
