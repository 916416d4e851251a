/* SPDX-License-Identifier: GPL-2.0-only */
/* The redo area's bytes as pure functions: see redo_judge.c. Included on the host, too. */
#ifndef REM_REDO_JUDGE_H
#define REM_REDO_JUDGE_H

#ifdef __KERNEL__
#include <linux/remanence/rem_redo.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include "../../format/rem_redo.h"
#endif

/* Smaller rings would be full with the first large write. */
#define REM_REDO_SLOTS_MIN 512u

enum rem_redo_state {
	REM_REDO_NONE,	  /* no ring */
	REM_REDO_EMPTY,	  /* the disk lacks nothing */
	REM_REDO_WAITS,	  /* the disk may lack what is at [head, covered) */
	REM_REDO_DAMAGED, /* there is a ring, and what it has is not known */
};

/**
 * struct rem_redo_seen - a ring as its entry says, judged
 * @id: of the ring
 * @offset: from the start of the area to slot 0
 * @sectors: size of its disk
 * @slots: how many it has
 * @head: position of the first write that the disk may lack
 * @covered: position behind the last one that was promised
 */
struct rem_redo_seen {
	rem_u64 id;
	rem_u64 offset;
	rem_u64 sectors;
	rem_u32 slots;
	rem_u64 head;
	rem_u64 covered;
};

/**
 * struct rem_redo_extent - a part of the area that is taken
 * @offset: from the start of the area
 * @bytes: 0: nothing
 */
struct rem_redo_extent {
	rem_u64 offset;
	rem_u64 bytes;
};

rem_u64 rem_redo_ring_bytes(rem_u32 slots);
rem_u64 rem_redo_data_at(const struct rem_redo_seen *ring, rem_u64 position);
rem_u64 rem_redo_slot_at(const struct rem_redo_seen *ring, rem_u64 position);
void rem_redo_fill_disk(struct rem_redo_disk *disk);
void rem_redo_fill_word(struct rem_redo_word *word, rem_u64 id,
			rem_u64 position);
void rem_redo_fill_slot(struct rem_redo_slot *slot);
enum rem_redo_state rem_redo_judge(const rem_u8 *entry, rem_u64 area_bytes,
				   struct rem_redo_seen *ret_ring);
const char *rem_redo_slot_wrong(const struct rem_redo_slot *slot,
				const struct rem_redo_seen *ring,
				rem_u64 position);
bool rem_redo_data_wrong(const struct rem_redo_slot *slot,
			 const rem_u8 *data);
rem_u32 rem_redo_place(const struct rem_redo_extent *taken, rem_u32 count,
		       rem_u64 area_bytes, rem_u32 slots,
		       rem_u64 *ret_offset);

#endif /* REM_REDO_JUDGE_H */
