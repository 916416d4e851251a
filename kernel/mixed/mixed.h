/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this directory share. README.md has how they hang together. */
#ifndef REM_MIXED_PRIVATE_H
#define REM_MIXED_PRIVATE_H

#include <linux/atomic.h>
#include <linux/limits.h>
#include <linux/mm_types.h>
#include <linux/types.h>
#include <linux/remanence/rem_mixed.h>

/**
 * struct rem_frame - a page of DRAM
 * @home: the page of NVRAM whose content it has; NULL if there is none. It owns a
 *	reference of it, but if it is lent.
 * @group: the control group that it counts for; NULL if there is none
 * @next: of a free frame: the number of the next one, + 1
 *
 * Whether it may differ from its home is in rem_frames_dirty.
 */
struct rem_frame {
	struct page *home;
	struct mem_cgroup *group;
	u32 next;
};

/**
 * enum rem_dram_reason - why a page comes to DRAM, or leaves it
 * @REM_DRAM_SCAN: a scan has found it hot, or cold
 * @REM_DRAM_USE: a fault has told that it is used
 * @REM_DRAM_ROOM: others need room (policy.c)
 * @REM_DRAM_FAULT: a program has got it, or maps it
 * @REM_DRAM_BOUND: too many may differ from their homes
 * @REM_DRAM_WRITES: as enum rem_mixed_why, and the next ones, too
 */
enum rem_dram_reason {
	REM_DRAM_SCAN,
	REM_DRAM_USE,
	REM_DRAM_ROOM,
	REM_DRAM_FAULT,
	REM_DRAM_BOUND,
	REM_DRAM_WRITES,
	REM_DRAM_CHANGES,
	REM_DRAM_LEAVES,
	REM_DRAM_MOVES,
};

/* What administrators see. */
struct rem_mixed_counts {
	atomic64_t promoted;	/* pages that moved to DRAM */
	atomic64_t began;	/* new ones that began there */
	atomic64_t demoted;	/* pages that moved back to their homes */
	atomic64_t sorted;	/* pages that moved to DRAM of another level */
	atomic64_t copied;	/* of these, such as differed from them */
	atomic64_t cleaned;	/* frames that were copied home while they stayed */
	atomic64_t written;	/* first stores to clean frames */
	atomic64_t over;	/* of these, such as went to NVRAM: too many were dirty */
	atomic64_t limited;	/* in use, in NVRAM, as their group had all it may */
	atomic64_t scanned;	/* page-table entries that were looked at */
	atomic64_t scans;
	atomic64_t marked;	/* entries that were marked, so that their use is a fault */
	atomic64_t mark_faults; /* faults of such */
	atomic64_t file_copied; /* pages of files that were copied to DRAM */
	atomic64_t file_mapped; /* page-table entries that map such a copy */
	atomic64_t text_copied; /* pages of the kernel's text that were copied to DRAM */
	/* Copies that ended, by enum rem_mixed_why, and such as were too cold. */
	atomic64_t file_ended[REM_MIXED_MOVES + 1];
	atomic64_t file_cooled;
};

extern struct rem_mixed_counts rem_mixed_counts;

/* frames.c: the pages of DRAM */
int rem_frames_open(void);
unsigned int rem_frames_count(void);
unsigned long rem_frames_end(void);
bool rem_frames_has(unsigned long pfn);
unsigned int rem_frame_number(const struct page *frame);
struct page *rem_frame_of(unsigned int number);
unsigned int rem_frames_used(void);
unsigned int rem_frames_dirty_count(void);
unsigned int rem_frames_dirty_max(void);
struct page *rem_frame_take(struct page *home, struct mm_struct *mm);
struct page *rem_frame_take_beside(struct page *frame, unsigned int level);
void rem_frame_hand_over(struct page *from, struct page *to);
struct page *rem_frame_lend(struct page *page);
unsigned int rem_frames_lent(void);
bool rem_frame_next_lent(unsigned int *number, unsigned long *ret_pfn);
struct page *rem_frame_home(struct page *frame);
struct mem_cgroup *rem_frame_group(unsigned int number);
void rem_frame_leave(struct page *frame);
void rem_frame_give_back(struct page *frame);
bool rem_frame_is_used(unsigned int number);
bool rem_frame_is_lent(unsigned int number);
bool rem_frame_is_dirty(struct page *frame);
bool rem_frame_soil(struct page *frame);
void rem_frame_cleaned(struct page *frame);
struct page *rem_frame_next_dirty(unsigned int *cursor);
void *rem_frames_owner(void);
u64 rem_mixed_ns_since(u64 begin);
unsigned int rem_level_frames(unsigned int level);
unsigned int rem_level_end(unsigned int level);
unsigned int rem_level_free(unsigned int level);

/* levels.c: DRAM of more than one kind */
#define REM_LEVELS_MAX 4

/**
 * typedef rem_level_take - a range of DRAM that is of a level
 *
 * Return: 0 or a negative errno.
 */
typedef int (*rem_level_take)(unsigned int level, u64 start, u64 end);

int rem_levels_open(rem_level_take take);
unsigned int rem_levels_count(void);
void rem_levels_sort(void);
ssize_t rem_levels_show(char *buf);

/* move.c: pages change their place */
#define REM_MOVE_MAX 512 /* pages of one call: those of one page table */

/**
 * struct rem_move - room for one call of rem_move_up() or rem_move_down()
 * @src: as struct migrate_vma has them, one for each page
 * @dst: the same
 * @reason: for tracepoints
 */
struct rem_move {
	unsigned long *src;
	unsigned long *dst;
	enum rem_dram_reason reason;
};

void rem_move_up(struct rem_move *move, struct vm_area_struct *vma,
		 unsigned long start, unsigned int pages);
void rem_move_down(struct rem_move *move, struct vm_area_struct *vma,
		   unsigned long start, unsigned int pages);
void rem_move_up_one(struct vm_area_struct *vma, unsigned long addr);
void rem_move_down_one(struct page *frame);
bool rem_move_over(struct page *frame, unsigned int level);
void rem_frame_clean(struct page *frame, enum rem_dram_reason why);

/* processes.c: which a scan looks at */
enum rem_idle { REM_IDLE_NONE, REM_IDLE_WITH_FRAMES, REM_IDLE_ALL };

/**
 * struct rem_process_turn - through all processes
 * @nr: of the last one
 * @scan: number of the scan
 * @is_first: the scan's first turn, which counts how long processes have not run
 */
struct rem_process_turn {
	int nr;
	u16 scan;
	bool is_first;
};

int rem_process_open(void);
struct mm_struct *rem_process_next(struct rem_process_turn *turn, enum rem_idle idle_ones);
void rem_process_note(const struct rem_process_turn *turn, bool has_frames);

/* heat.c: which pages are used most */
#define REM_PRESSED_FOR (10 * HZ) /* since reclaim has looked for memory */
#define REM_HEAT_MAX 16 /* scans that heat is made of */

int rem_heat_open(void);
void rem_heat_scan(struct rem_move *move, bool empty, unsigned int period_us);
bool rem_heat_looks(void);
void rem_heat_moved(struct page *from, struct page *to);
void rem_heat_began(struct page *frame);
void rem_heat_ended(struct page *frame);
bool rem_heat_is_low(unsigned long pfn);
bool rem_heat_is_short(void);
bool rem_heat_find_room(unsigned int pages);
unsigned int rem_heat_level(void);
unsigned int rem_heat_of_level(unsigned int level);
unsigned int rem_heat_now(unsigned long pfn);
bool rem_heat_is_new(unsigned long pfn);
unsigned int rem_heat_reserve(void);
bool rem_heat_is_hot(unsigned long pfn);
bool rem_heat_is_cold(unsigned long pfn, bool was_used, unsigned int number);
bool rem_heat_is_pressed(void);
bool rem_heat_is_this_scan(unsigned long pfn);

/* policy.c: the rule that chooses what comes and goes */
int rem_policy_set(const char *name, unsigned int period_us);
ssize_t rem_policy_show(char *buf);
bool rem_policy_decides(void);
bool rem_policy_copies(void);
bool rem_policy_is_short(void);
unsigned int rem_policy_room(void);
unsigned int rem_policy_quota(void);
bool rem_policy_has_room(unsigned int pages);
bool rem_policy_wants_huge(struct folio *folio);
bool rem_policy_wants_file(unsigned long pfn);
bool rem_policy_asks(struct folio *folio, bool *ret_up);
bool rem_policy_mark(struct vm_area_struct *vma, unsigned long addr, pte_t *pte,
		     struct folio *folio);
bool rem_policy_make_room(void);

/* damon.c: what the kernel's monitor of accesses finds hot */
int rem_damon_begin(unsigned int period_us);
void rem_damon_end(void);
bool rem_damon_is_hot(unsigned long pfn);

/* group.c: control groups */
#ifdef CONFIG_MEMCG
int rem_groups_open(void);
struct mem_cgroup *rem_group_of(struct mm_struct *mm);
void rem_group_put(struct mem_cgroup *group);
bool rem_group_charge(struct page *home, struct mm_struct *mm,
		      struct mem_cgroup **ret_group);
void rem_group_uncharge(struct mem_cgroup *group);
unsigned int rem_group_room(struct mem_cgroup *group);
unsigned int rem_group_excess(struct mem_cgroup *group);
bool rem_group_is_short(struct mem_cgroup *group);
bool rem_group_has_room(struct mm_struct *mm, unsigned int pages);
bool rem_group_was_lowered(void);
#else
static inline int rem_groups_open(void)
{
	return 0;
}

static inline struct mem_cgroup *rem_group_of(struct mm_struct *mm)
{
	return NULL;
}

static inline void rem_group_put(struct mem_cgroup *group)
{
}

static inline bool rem_group_charge(struct page *home, struct mm_struct *mm,
				    struct mem_cgroup **ret_group)
{
	*ret_group = NULL;
	return true;
}

static inline void rem_group_uncharge(struct mem_cgroup *group)
{
}

static inline unsigned int rem_group_room(struct mem_cgroup *group)
{
	return UINT_MAX;
}

static inline unsigned int rem_group_excess(struct mem_cgroup *group)
{
	return 0;
}

static inline bool rem_group_is_short(struct mem_cgroup *group)
{
	return false;
}

static inline bool rem_group_has_room(struct mm_struct *mm, unsigned int pages)
{
	return true;
}

static inline bool rem_group_was_lowered(void)
{
	return false;
}
#endif

/* text.c: the kernel's text */
int rem_text_open(void);
void rem_text_scan(bool leave);
void rem_text_forget(void);
unsigned int rem_text_used(void);
bool rem_text_has(unsigned long pfn);
void rem_text_home(void);
u64 rem_text_bound_ns(void);

/* state.c: the thread */
void rem_mixed_wake(void);

/* new.c: new pages */
void rem_new_begin(void);
void rem_new_allow(bool allow);
bool rem_new_is_allowed(void);

/* files.c: pages of files */
int rem_files_open(void);
void rem_files_begin(void);
void rem_files_scan(bool empty);
u64 rem_files_reads(u64 *ret_nvram);
void rem_files_used(unsigned long pfn);
bool rem_files_has(const struct inode *inode);
void rem_files_leave(unsigned int number);
bool rem_copy_is_mapped(unsigned long pfn);
struct page *rem_copy_map(unsigned long pfn);
struct page *rem_copy_take(unsigned long pfn);

/* map.c: copies that programs have mapped */
int rem_map_open(void);
void rem_map_begin_all(void);
bool rem_map_may(struct vm_area_struct *vma);
void rem_map_begin(struct folio *folio);
bool rem_map_end(struct folio *folio, enum rem_dram_reason why);
void rem_map_rest(struct page *frame);
void rem_map_flush(void);
unsigned int rem_map_resting(void);

#endif /* REM_MIXED_PRIVATE_H */
