// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * What a slot holds, decided from its copies. Reads only, and calls nothing but the
 * checksum: pminit has it too, long before anything could be written.
 *
 * Invariant: nothing that was acknowledged is forgotten because copies are
 * damaged: it is refused.
 */
#include "slot.h"

rem_u32 pm_check(rem_u32 kind, rem_u32 index, rem_u32 sequence,
		 const void *body, size_t bytes)
{
	const rem_u32 head[] = { kind, index, sequence };
	rem_u32 crc = pm_crc32c_add(PM_CRC_BEGIN, head, sizeof(head));

	crc = ~pm_crc32c_add(crc, body, bytes);
	return crc ? crc : 1;
}

/* A half in work holds nothing. */
static size_t body_bytes(const void *body)
{
	return body ? PM_BODY_BYTES : 0;
}

rem_u32 pm_half_check(rem_u32 kind, rem_u32 index, rem_u32 sequence,
		      const void *body)
{
	return pm_check(kind, index, sequence, body, body_bytes(body));
}

rem_u8 *pm_half_at(const struct pm_slot *slot, int copy, rem_u32 sequence)
{
	return slot->copy[copy] + sequence % REM_PM_HALVES * REM_PM_HALF_BYTES;
}

/* @half is a copy in volatile memory: media may not change under the check. */
enum pm_half_state pm_half_judge(const rem_u8 *half, rem_u32 index,
				 rem_u32 parity, rem_u32 *ret_sequence)
{
	struct rem_pm_word word;

	memcpy(&word, half, sizeof(word));
	if (!word.sequence || word.sequence > REM_PM_SEQUENCE_LAST ||
	    word.sequence % REM_PM_HALVES != parity)
		return PM_HALF_DAMAGED;
	*ret_sequence = word.sequence;
	if (word.check == pm_half_check(REM_PM_COMMITTED, index, word.sequence,
					half + sizeof(word)))
		return PM_HALF_COMMITTED;
	if (word.check ==
	    pm_half_check(REM_PM_IN_WORK, index, word.sequence, NULL))
		return PM_HALF_IN_WORK;
	return PM_HALF_DAMAGED;
}

/* @half: where its copy goes; what media has lost is damaged. */
enum pm_half_state pm_half_fetch(const struct pm_slot *slot, int copy,
				 rem_u32 parity, rem_u8 *half,
				 rem_u32 *ret_sequence)
{
	if (!pm_fetch(half, pm_half_at(slot, copy, parity), REM_PM_HALF_BYTES))
		return PM_HALF_DAMAGED;
	return pm_half_judge(half, slot->index, parity % REM_PM_HALVES,
			     ret_sequence);
}

/* All that is found of one slot. */
struct findings {
	enum pm_half_state state[REM_PM_COPIES][REM_PM_HALVES];
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
			enum pm_half_state state;

			state = pm_half_fetch(slot, copy, parity, half,
					      sequence);
			found->state[copy][parity] = state;
			best->damaged += state == PM_HALF_DAMAGED;
			if (state != PM_HALF_COMMITTED)
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
	case PM_HALF_COMMITTED:
		return there < sequence;
	case PM_HALF_IN_WORK:
		return there == sequence + 1;
	default:
		return false;
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
		bool holds = found.state[copy][parity] == PM_HALF_COMMITTED &&
			     found.sequence[copy][parity] == ret->sequence;
		bool shows = shows_no_newer(&found, copy, ret->sequence);

		known |= shows;
		ret->whole &= holds && shows;
	}
	return known ? 0 : -EUCLEAN;
}
