/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Slots: records of 192 bytes with two halves and three copies (rem_pm.h). */
#ifndef PM_SLOT_H
#define PM_SLOT_H

#include "env.h"

#define PM_BODY_BYTES (REM_PM_HALF_BYTES - sizeof(struct rem_pm_word))

struct pm_slot {
	rem_u8 *copy[REM_PM_COPIES];
	rem_u32 index;
};

/* CRC32C of {@kind, @index, @sequence, @bytes at @body}; never 0. */
rem_u32 pm_check(rem_u32 kind, rem_u32 index, rem_u32 sequence,
		 const void *body, size_t bytes);

/* What a slot holds, decided from its copies. */
struct pm_verdict {
	rem_u32 sequence;		/* of the half that holds */
	rem_u32 damaged;		/* halves that are */
	bool whole;			/* nothing is to be repaired */
	rem_u8 half[REM_PM_HALF_BYTES]; /* a copy that was checked */
};

/* 0; -EUCLEAN where no half can be trusted, and @ret->damaged only is set. */
int pm_slot_judge(const struct pm_slot *slot, struct pm_verdict *ret);

/*
 * Commit @half (its word is not looked at) as sequence @sequence, which is one
 * more than what holds. Durable on return.
 */
void pm_slot_write(struct pm_env *env, const struct pm_slot *slot,
		   rem_u32 sequence, const void *half);

/* Make all copies say what was judged. A cut at any point does no harm. */
void pm_slot_repair(struct pm_env *env, const struct pm_slot *slot,
		    const struct pm_verdict *holds);

/*
 * Make media say what memory holds: @half, which was committed as @sequence (its
 * word is not looked at). For a slot that is open: what was acknowledged is in
 * memory, too, and so damage to all copies loses nothing. A cut at any point
 * leaves that record or a refused slot, never an older record.
 * 0: nothing was wrong; 1: it was put right; -EUCLEAN: media does not keep it.
 */
int pm_slot_restore(struct pm_env *env, const struct pm_slot *slot,
		    rem_u32 sequence, const void *half,
		    struct pm_verdict *ret_found);

/*
 * The first record of a slot; the caller fences before anyone may find it.
 * @ordered: as long as the half that is not used is zeros it is not finished.
 */
void pm_slot_first(struct pm_env *env, const struct pm_slot *slot,
		   const void *half, bool ordered);

/*
 * Whether each word of a copy is zero, or what pm_slot_first() stores there: a format
 * that was cut, or none. @any: a mask of words of the body that may be anything.
 */
bool pm_slot_is_unmade(const struct pm_slot *slot, int copy, const void *half,
		       rem_u32 any);

/* Of judge.c, for slot.c. */
enum pm_half_state {
	PM_HALF_DAMAGED,
	PM_HALF_IN_WORK,
	PM_HALF_COMMITTED,
};

rem_u32 pm_half_check(rem_u32 kind, rem_u32 index, rem_u32 sequence,
		      const void *body);
rem_u8 *pm_half_at(const struct pm_slot *slot, int copy, rem_u32 sequence);
/* @half is a copy in volatile memory: media may not change under the check. */
enum pm_half_state pm_half_judge(const rem_u8 *half, rem_u32 index,
				 rem_u32 parity, rem_u32 *ret_sequence);
/* The same of what is on media, by a copy of it in @half. */
enum pm_half_state pm_half_fetch(const struct pm_slot *slot, int copy,
				 rem_u32 parity, rem_u8 *half,
				 rem_u32 *ret_sequence);

#endif /* PM_SLOT_H */
