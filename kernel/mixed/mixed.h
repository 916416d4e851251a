/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this directory share. README.md has how they hang together. */
#ifndef REM_MIXED_PRIVATE_H
#define REM_MIXED_PRIVATE_H

#include <linux/atomic.h>
#include <linux/mm_types.h>
#include <linux/types.h>
#include <linux/remanence/rem_mixed.h>

/**
 * struct rem_frame - a page of DRAM
 * @home: the page of NVRAM whose content it has; NULL if there is none
 * @next: of a free frame: the number of the next one, + 1
 *
 * Whether it may differ from its home is in rem_frames_dirty.
 */
struct rem_frame {
	struct page *home;
	u32 next;
};

/* What administrators see. */
struct rem_mixed_counts {
	atomic64_t promoted;	/* pages that moved to DRAM */
	atomic64_t demoted;	/* pages that moved back to their homes */
	atomic64_t copied;	/* of these, such as differed from them */
	atomic64_t cleaned;	/* frames that were copied home while they stayed */
	atomic64_t written;	/* first stores to clean frames */
	atomic64_t over;	/* of these, such as went to NVRAM: too many were dirty */
	atomic64_t scanned;	/* page-table entries that were looked at */
	atomic64_t scans;
};

extern struct rem_mixed_counts rem_mixed_counts;

/* frames.c: the pages of DRAM */
int rem_frames_open(void);
unsigned int rem_frames_count(void);
unsigned long rem_frames_end(void);
bool rem_frames_has(unsigned long pfn);
unsigned int rem_frames_used(void);
unsigned int rem_frames_dirty_count(void);
unsigned int rem_frames_dirty_max(void);
struct page *rem_frame_take(struct page *home);
struct page *rem_frame_home(struct page *frame);
void rem_frame_leave(struct page *frame);
bool rem_frame_is_dirty(struct page *frame);
bool rem_frame_soil(struct page *frame);
void rem_frame_cleaned(struct page *frame);
struct page *rem_frame_next_dirty(unsigned int *cursor);
void *rem_frames_owner(void);

/* move.c: pages change their place */
#define REM_MOVE_MAX 512 /* pages of one call: those of one page table */

/**
 * struct rem_move - room for one call of rem_move_up() or rem_move_down()
 * @src: as struct migrate_vma has them
 * @dst: the same
 */
struct rem_move {
	unsigned long src[REM_MOVE_MAX];
	unsigned long dst[REM_MOVE_MAX];
};

void rem_move_up(struct rem_move *move, struct vm_area_struct *vma,
		 unsigned long start, unsigned int pages);
void rem_move_down(struct rem_move *move, struct vm_area_struct *vma,
		   unsigned long start, unsigned int pages);
void rem_frame_clean(struct page *frame);

/* heat.c: which pages are used most */
int rem_heat_open(void);
void rem_heat_scan(struct rem_move *move, bool empty);
void rem_heat_moved(struct page *from, struct page *to);
unsigned int rem_heat_level(void);

#endif /* REM_MIXED_PRIVATE_H */
