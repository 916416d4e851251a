// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of DRAM (frames), each with its home in NVRAM.
 *
 * They are device memory that the CPU can use like any other (MEMORY_DEVICE_COHERENT):
 * no allocator has them, so nothing gets into DRAM but what move.c puts there, and the
 * kernel calls rem_frames_free() when the last user of one is gone. Their struct pages,
 * and all that is in this file, are in NVRAM.
 *
 * A frame in use has the content of its home. It is dirty from just before the first
 * store that may make it differ, until what it has was copied home. So at any
 * instruction:
 *
 *   frame in use, clean	its home has the content
 *   frame in use, dirty	it has the content, and Stop copies it home
 */
#include <linux/bitmap.h>
#include <linux/ioport.h>
#include <linux/libnvdimm.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/range.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/remanence/rem_image.h>
#include <asm/memory_kinds.h>
#include <asm/sparsemem.h>

#include "../machine.h"
#include "mixed.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

/* Experiments need less DRAM than the smallest range that memremap_pages() takes. */
static ulong max_kib;
module_param_named(dram_max_kib, max_kib, ulong, 0444);
MODULE_PARM_DESC(dram_max_kib, "No more DRAM than that caches NVRAM (0: all of it)");

#define RANGES_MAX 16
#define PROBES_ORDER 8
#define PROBE_ROUNDS 5
#define PROBES BIT(PROBES_ORDER) /* copies that are timed, each to a page of its own */

struct rem_mixed_counts rem_mixed_counts;

static struct dev_pagemap *maps[RANGES_MAX];
static unsigned int map_first[RANGES_MAX]; /* number of its first frame */
static unsigned int map_count;

static struct rem_frame *frames;
static unsigned int frame_count, used_count;
static DEFINE_RAW_SPINLOCK(lock);

/* Frames of one kind of DRAM, the fastest first (levels.c): their numbers are in a row. */
struct level {
	unsigned int count;
	unsigned int end; /* number behind its last one */
	unsigned int free;
	unsigned int first_free; /* + 1 */
};

static struct level levels[REM_LEVELS_MAX];

static unsigned long *dirty;
static atomic_t dirty_count = ATOMIC_INIT(0);
static unsigned int dirty_max;
/* Frames that have a copy of a page without owning a reference of it. */
static unsigned long *lent;
static atomic_t lent_count = ATOMIC_INIT(0);
static u64 copy_ns, walk_ns;

/* Frames that a CPU takes at once in Stop and Go. */
#define SHARE_FRAMES 1024
/* The next share that no CPU has taken, those that are done, and frames copied. */
static atomic_t next_share, done_shares, copied_frames;
/* Whether a CPU has begun to let the kernel's text be in NVRAM. */
static atomic_t text_is_home;

static unsigned int number_of_pfn(unsigned long pfn)
{
	unsigned int i;

	for (i = 0; i < map_count; i++) {
		unsigned long first = PHYS_PFN(maps[i]->range.start);

		if (pfn >= first && pfn <= PHYS_PFN(maps[i]->range.end))
			return map_first[i] + (pfn - first);
	}
	return UINT_MAX;
}

/** rem_frame_number - Return: the number of a frame, from 0 on. */
unsigned int rem_frame_number(const struct page *frame)
{
	return number_of_pfn(page_to_pfn(frame));
}

/** rem_frame_of - Return: the frame of a number. */
struct page *rem_frame_of(unsigned int number)
{
	unsigned int i = map_count - 1;

	while (number < map_first[i])
		i--;
	return pfn_to_page(PHYS_PFN(maps[i]->range.start) +
			   (number - map_first[i]));
}

static struct level *level_of(unsigned int number)
{
	struct level *level = levels;

	while (number >= level->end)
		level++;
	return level;
}

static void push_free(unsigned int number)
{
	struct level *level = level_of(number);

	frames[number].next = level->first_free;
	level->first_free = number + 1;
	WRITE_ONCE(level->free, level->free + 1);
}

/* Return: a frame of a level, which is in use for @home from now on; NULL if none is free. */
static struct page *pop_free(struct level *level, struct page *home,
			     struct mem_cgroup *group)
{
	unsigned int number;

	if (!level->first_free)
		return NULL;
	number = level->first_free - 1;
	level->first_free = frames[number].next;
	WRITE_ONCE(level->free, level->free - 1);
	WRITE_ONCE(frames[number].home, home);
	WRITE_ONCE(frames[number].group, group);
	used_count++;
	return rem_frame_of(number);
}

/* The last user of a frame is gone: so is what its home was kept for. Context: any. */
static void rem_frames_free(struct page *frame)
{
	unsigned int number = rem_frame_number(frame);
	struct mem_cgroup *group;
	unsigned long flags;
	struct page *home;

	rem_heat_ended(frame);
	raw_spin_lock_irqsave(&lock, flags);
	if (test_and_clear_bit(number, dirty))
		atomic_dec(&dirty_count);
	home = frames[number].home;
	WRITE_ONCE(frames[number].home, NULL);
	group = frames[number].group;
	WRITE_ONCE(frames[number].group, NULL);
	if (test_and_clear_bit(number, lent)) {
		atomic_dec(&lent_count);
		home = NULL;
	}
	/* Of the page that it was; the allocator does it for others. */
	frame->flags &= ~(PAGE_FLAGS_CHECK_AT_PREP & ~BIT(PG_reserved));
	push_free(number);
	used_count--;
	raw_spin_unlock_irqrestore(&lock, flags);
	rem_group_uncharge(group);
	if (home)
		put_page(home);
}

static const struct dev_pagemap_ops ops = { .page_free = rem_frames_free };

/** rem_frames_owner - Return: the owner of the frames, as migrate_vma_setup() wants it. */
void *rem_frames_owner(void)
{
	return &rem_mixed_counts;
}

/** rem_frames_end - Return: the number of the page behind the last frame. */
unsigned long rem_frames_end(void)
{
	unsigned long end = 0;
	unsigned int i;

	for (i = 0; i < map_count; i++)
		end = max_t(unsigned long, end, PHYS_PFN(maps[i]->range.end) + 1);
	return end;
}

/** rem_frames_count - Return: number of frames; 0 without memtype=mixed. */
unsigned int rem_frames_count(void)
{
	return frame_count;
}

/** rem_frames_has - Return: whether a page is one of DRAM, without reading the page. */
bool rem_frames_has(unsigned long pfn)
{
	return number_of_pfn(pfn) != UINT_MAX;
}

/** rem_frames_used - Return: frames in use. Context: any. */
unsigned int rem_frames_used(void)
{
	return READ_ONCE(used_count);
}

/** rem_frames_dirty_count - Return: frames that may differ from their homes. */
unsigned int rem_frames_dirty_count(void)
{
	return atomic_read(&dirty_count);
}

/** rem_frames_dirty_max - Return: how many a Stop can copy home in the hold-up. */
unsigned int rem_frames_dirty_max(void)
{
	return dirty_max;
}

/**
 * rem_frame_take - get a frame for a page
 * @home: the page. The frame owns a reference of it, which the caller takes later,
 *	as a page with one more cannot move, or calls rem_frame_give_back().
 * @mm: the process whose page is new, and is charged to no control group yet; else NULL
 *
 * From now on Go fills the frame from its home.
 *
 * Return: the frame, locked, with one reference, clean; NULL if none is free, or the page's
 * group has all it may.
 */
struct page *rem_frame_take(struct page *home, struct mm_struct *mm)
{
	struct mem_cgroup *group;
	struct page *frame = NULL;
	unsigned int level;
	unsigned long flags;

	if (!rem_group_charge(home, mm, &group))
		return NULL;
	raw_spin_lock_irqsave(&lock, flags);
	for (level = 0; !frame && level < rem_levels_count(); level++)
		frame = pop_free(&levels[level], home, group);
	raw_spin_unlock_irqrestore(&lock, flags);
	if (frame)
		zone_device_page_init(frame);
	else
		rem_group_uncharge(group);
	return frame;
}

/**
 * rem_frame_take_beside - get a frame of another level for a page that has one
 * @frame: which it has; locked, mapped nowhere. Only one of both keeps the home, by
 *	rem_frame_leave().
 * @level: of which it gets one
 *
 * From now on Go fills both from the home.
 *
 * Return: as rem_frame_take(); it counts for no control group.
 */
struct page *rem_frame_take_beside(struct page *frame, unsigned int level)
{
	unsigned long flags;
	struct page *other;

	raw_spin_lock_irqsave(&lock, flags);
	other = pop_free(&levels[level], rem_frame_home(frame), NULL);
	raw_spin_unlock_irqrestore(&lock, flags);
	if (other)
		zone_device_page_init(other);
	return other;
}

/** rem_frame_hand_over - what a frame has counted for, another one does. Context: any. */
void rem_frame_hand_over(struct page *from, struct page *to)
{
	struct rem_frame *old = &frames[rem_frame_number(from)];
	struct rem_frame *new = &frames[rem_frame_number(to)];
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	WRITE_ONCE(new->group, old->group);
	WRITE_ONCE(old->group, NULL);
	raw_spin_unlock_irqrestore(&lock, flags);
}

/** rem_level_frames - Return: how many frames a level has. */
unsigned int rem_level_frames(unsigned int level)
{
	return levels[level].count;
}

/** rem_level_end - Return: the number behind the last frame of a level. */
unsigned int rem_level_end(unsigned int level)
{
	return levels[level].end;
}

/** rem_level_free - Return: how many frames of a level are free. */
unsigned int rem_level_free(unsigned int level)
{
	return READ_ONCE(levels[level].free);
}

/** rem_frame_is_used - Return: whether the frame of a number has a page. */
bool rem_frame_is_used(unsigned int number)
{
	return READ_ONCE(frames[number].home);
}

/**
 * rem_frame_lend - get a frame for a copy of a page that stays where it is
 * @page: the page, of which the frame owns no reference
 *
 * From now on Go fills the frame from the page.
 *
 * Return: as rem_frame_take().
 */
struct page *rem_frame_lend(struct page *page)
{
	struct page *frame = rem_frame_take(page, NULL);

	if (frame) {
		set_bit(rem_frame_number(frame), lent);
		atomic_inc(&lent_count);
	}
	return frame;
}

/** rem_frame_is_lent - Return: whether rem_frame_lend() has given the frame of a number. */
bool rem_frame_is_lent(unsigned int number)
{
	return test_bit(number, lent);
}

/** rem_frames_lent - Return: frames that rem_frame_lend() has given, and that are in use. */
unsigned int rem_frames_lent(void)
{
	return atomic_read(&lent_count);
}

/**
 * rem_frame_next_lent - walk over the frames that rem_frame_lend() has given
 * @number: where to begin; set to the one that was found
 * @ret_pfn: set to the number of its page
 *
 * Return: false after the last one.
 */
bool rem_frame_next_lent(unsigned int *number, unsigned long *ret_pfn)
{
	struct page *home;

	for (;; ++*number) {
		*number = find_next_bit(lent, frame_count, *number);
		if (*number >= frame_count)
			return false;
		/* It may be free by now. */
		home = READ_ONCE(frames[*number].home);
		if (home) {
			*ret_pfn = page_to_pfn(home);
			return true;
		}
	}
}

/** rem_frame_home - Return: where a frame's page is when it is not in DRAM. */
struct page *rem_frame_home(struct page *frame)
{
	return frames[rem_frame_number(frame)].home;
}

/**
 * rem_frame_group - Return: the control group that a frame counts for, or NULL
 * @number: its number
 *
 * Context: the frame is in use, or under RCU.
 */
struct mem_cgroup *rem_frame_group(unsigned int number)
{
	return READ_ONCE(frames[number].group);
}

/**
 * rem_frame_leave - the home is not the frame's any more, nor its reference of it
 * @frame: locked, clean, mapped nowhere
 */
void rem_frame_leave(struct page *frame)
{
	WRITE_ONCE(frames[rem_frame_number(frame)].home, NULL);
}

/**
 * rem_frame_give_back - a page does not get the frame that was taken for it
 * @frame: as rem_frame_take() has given it, clean
 */
void rem_frame_give_back(struct page *frame)
{
	rem_frame_leave(frame);
	unlock_page(frame);
	put_page(frame);
}

/** rem_frame_is_dirty - Return: whether a frame may differ from its home. */
bool rem_frame_is_dirty(struct page *frame)
{
	return test_bit(rem_frame_number(frame), dirty);
}

/**
 * rem_frame_soil - a frame may differ from its home from now on
 * @frame: in use, with all its content
 *
 * Context: any.
 * Return: false if it may not: a Stop could not copy one more home.
 */
bool rem_frame_soil(struct page *frame)
{
	unsigned int number = rem_frame_number(frame);

	if (test_bit(number, dirty))
		return true;
	if (!atomic_add_unless(&dirty_count, 1, READ_ONCE(dirty_max)))
		return false;
	/* Callers have the frame's lock. */
	set_bit(number, dirty);
	return true;
}

/** rem_frame_cleaned - a frame that cannot be written now was copied home */
void rem_frame_cleaned(struct page *frame)
{
	/* The copy comes first. */
	smp_mb__before_atomic();
	if (test_and_clear_bit(rem_frame_number(frame), dirty))
		atomic_dec(&dirty_count);
}

/**
 * rem_frame_next_dirty - walk over the dirty frames
 * @cursor: begins at 0
 *
 * Return: the next one, with a reference; NULL after the last one.
 */
struct page *rem_frame_next_dirty(unsigned int *cursor)
{
	struct page *frame;
	unsigned int number;

	for (;;) {
		number = find_next_bit(dirty, frame_count, *cursor);
		if (number >= frame_count)
			return NULL;
		*cursor = number + 1;
		frame = rem_frame_of(number);
		if (get_page_unless_zero(frame))
			return frame;
	}
}

static unsigned int share_count(void)
{
	return DIV_ROUND_UP(frame_count, SHARE_FRAMES);
}

static void share_begin(void)
{
	atomic_set(&text_is_home, 0);
	atomic_set(&next_share, 0);
	atomic_set(&done_shares, 0);
	atomic_set(&copied_frames, 0);
}

/* Calls @copy for each share that no other CPU has taken; it returns frames copied. */
static void share_work(unsigned int (*copy)(unsigned int begin,
					    unsigned int end))
{
	unsigned int share, begin;

	while ((share = atomic_inc_return(&next_share) - 1) < share_count()) {
		begin = share * SHARE_FRAMES;
		atomic_add(copy(begin, min(begin + SHARE_FRAMES, frame_count)),
			   &copied_frames);
		atomic_inc(&done_shares);
	}
}

static unsigned int copy_home(unsigned int begin, unsigned int end)
{
	unsigned int number, copied = 0;

	for (number = find_next_bit(dirty, end, begin); number < end;
	     number = find_next_bit(dirty, end, number + 1)) {
		copy_page(page_address(frames[number].home),
			  page_address(rem_frame_of(number)));
		copied++;
	}
	return copied;
}

static unsigned int copy_back(unsigned int begin, unsigned int end)
{
	unsigned int number, copied = 0;

	for (number = begin; number < end; number++) {
		struct page *home = frames[number].home;

		if (!home)
			continue;
		copy_page(page_address(rem_frame_of(number)),
			  page_address(home));
		copied++;
	}
	return copied;
}

/** rem_mixed_stop_begin - before any CPU calls rem_mixed_stop(). Context: one CPU. */
void rem_mixed_stop_begin(void)
{
	share_begin();
}

/**
 * rem_mixed_stop - Stop: copy dirty frames home, each CPU a share of them
 *
 * One of them first lets the kernel's text be in NVRAM, as Go begins in it.
 * Before the CPU's last write-back of its caches. They stay dirty.
 *
 * Context: interrupts off, no device masters the bus, no CPU runs programs.
 */
void rem_mixed_stop(void)
{
	if (!atomic_xchg(&text_is_home, 1))
		rem_text_home();
	share_work(copy_home);
}

/** rem_mixed_stopped - all dirty frames are home. Context: one CPU, as above. */
void rem_mixed_stopped(void)
{
	if (frame_count)
		rem_event(REM_EVENT_STOP_DRAM, atomic_read(&copied_frames));
}

/**
 * rem_mixed_go_begin - before any CPU calls rem_mixed_go()
 * @resumed: the power was off; else DRAM has what it had
 *
 * Context: boot CPU, before any other CPU runs.
 */
void notrace rem_mixed_go_begin(bool resumed)
{
	share_begin();
	if (!resumed) {
		atomic_set(&next_share, share_count());
		atomic_set(&done_shares, share_count());
	}
}

/**
 * rem_mixed_go - Go: DRAM gets back what the power cut took from it
 *
 * All at once: to find and change the page-table entries of a page, so that it comes
 * back with its first use, takes longer than to copy it. Each CPU takes a share.
 *
 * Context: interrupts off, before any device masters the bus and before any CPU runs
 * programs.
 */
void notrace rem_mixed_go(void)
{
	share_work(copy_back);
}

/** rem_mixed_went - wait until all is back. Context: boot CPU, as above. */
void notrace rem_mixed_went(void)
{
	if (!frame_count)
		return;
	while (atomic_read(&done_shares) < share_count())
		cpu_relax();
	rem_event(REM_EVENT_GO_DRAM, atomic_read(&copied_frames));
}

/** rem_mixed_bound_ns - Return: what copying home adds to a Stop at most. */
u64 rem_mixed_bound_ns(void)
{
	return dirty_max * copy_ns + walk_ns + rem_text_bound_ns();
}

static bool __init has_page(u64 start, u64 bytes)
{
	return region_intersects(start, bytes, IORESOURCE_SYSTEM_RAM,
				 IORES_DESC_NONE) != REGION_DISJOINT;
}

static int __init take_range(unsigned int level, u64 start, u64 end)
{
	struct dev_pagemap *map;
	void *addr;

	if (map_count == RANGES_MAX)
		return 0;
	if (has_page(start, end - start))
		return -EBUSY;
	map = kzalloc(sizeof(*map), GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	map->type = MEMORY_DEVICE_COHERENT;
	map->range.start = start;
	map->range.end = end - 1;
	map->nr_range = 1;
	map->ops = &ops;
	map->owner = rem_frames_owner();
	addr = memremap_pages(map, NUMA_NO_NODE);
	if (IS_ERR(addr)) {
		kfree(map);
		return PTR_ERR(addr);
	}
	map_first[map_count] = frame_count;
	maps[map_count++] = map;
	frame_count += PHYS_PFN(end - start);
	levels[level].count += PHYS_PFN(end - start);
	return 0;
}

/** rem_mixed_ns_since - Return: how long ago that was. @begin: of rem_ticks() */
u64 rem_mixed_ns_since(u64 begin)
{
	return mul_u64_u32_div(rem_ticks() - begin, NSEC_PER_MSEC,
			       rem_ticks_khz());
}

static void __init probe_copies(struct page *homes)
{
	unsigned int i;

	for (i = 0; i < PROBES; i++) {
		void *home = page_address(homes + i);

		/* The last ones are of the slowest level. */
		copy_page(home, page_address(rem_frame_of(frame_count - 1 -
							  i % frame_count)));
		arch_wb_cache_pmem(home, PAGE_SIZE);
	}
	wmb(); /* for the write-backs */
}

static void __init probe_walk(struct page *homes)
{
	share_begin();
	share_work(copy_home); /* none is dirty */
}

/*
 * The shortest of some rounds: a Stop has its CPUs for itself, while here interrupts, or the
 * host of a virtual machine, may take one away.
 */
static u64 __init shortest_ns(void (*probe)(struct page *homes),
			      struct page *homes)
{
	u64 shortest = U64_MAX;
	unsigned int i;

	for (i = 0; i < PROBE_ROUNDS; i++) {
		u64 begin = rem_ticks();

		probe(homes);
		shortest = min(shortest, rem_mixed_ns_since(begin));
	}
	return shortest;
}

/*
 * How long one frame takes until it has left the caches, and how long the search for dirty
 * ones takes; twice that, as a Stop may find NVRAM busier.
 */
static int __init time_copies(void)
{
	struct page *homes = alloc_pages(GFP_KERNEL, PROBES_ORDER);

	if (!homes)
		return -ENOMEM;
	copy_ns = max(2 * shortest_ns(probe_copies, homes) / PROBES, 1ull);
	__free_pages(homes, PROBES_ORDER);
	walk_ns = 2 * shortest_ns(probe_walk, NULL);
	return 0;
}

/* Half of what the supply has left over, as devices may come. */
static void __init choose_dirty_max(void)
{
	/* Of all other steps: no page may be dirty yet. */
	u64 hold_up_ns = rem_budget_hold_up_ns(), bound_ns = rem_budget_bound_ns();
	u64 left_ns = hold_up_ns > bound_ns ? hold_up_ns - bound_ns : 0;

	dirty_max = frame_count;
	if (hold_up_ns)
		dirty_max = min_t(u64, dirty_max, div64_u64(left_ns / 2, copy_ns));
}

/* Count the frames of each level, the fastest first. Return: false if one has none. */
static bool __init number_levels(void)
{
	unsigned int level, number = 0;

	if (max_kib)
		frame_count = min_t(u64, frame_count, max_kib >> (PAGE_SHIFT - 10));
	for (level = 0; level < rem_levels_count(); level++) {
		levels[level].count = min(levels[level].count, frame_count - number);
		if (!levels[level].count) {
			pr_err("remanence: dram_max_kib=%lu: it has to be a page or more for each level of DRAM, and all of those before the last\n",
			       max_kib);
			return false;
		}
		number += levels[level].count;
		levels[level].end = number;
	}
	return true;
}

/**
 * rem_frames_open - take the DRAM that memtype=mixed keeps from the kernel
 *
 * Return: 0, or a negative errno: then there is none.
 */
int __init rem_frames_open(void)
{
	int err = rem_levels_open(take_range);
	unsigned int number;

	if (!frame_count)
		err = err ?: -ENODEV;
	else if (err != -EINVAL && !number_levels())
		err = -EINVAL;
	if (!frame_count || err == -EINVAL) {
		frame_count = 0;
		return err;
	}
	frames = vzalloc(array_size(frame_count, sizeof(*frames)));
	dirty = vzalloc(BITS_TO_LONGS(frame_count) * sizeof(*dirty));
	lent = vzalloc(BITS_TO_LONGS(frame_count) * sizeof(*lent));
	if (!frames || !dirty || !lent) {
		frame_count = 0;
		return -ENOMEM;
	}
	for (number = frame_count; number; number--)
		push_free(number - 1);
	err = time_copies();
	if (!err)
		choose_dirty_max();
	return err;
}
