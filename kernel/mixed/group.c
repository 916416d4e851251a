// SPDX-License-Identifier: GPL-2.0-only
/*
 * Control groups: how much of DRAM a group has, with the groups below it, and how much it
 * may have.
 *
 *   memory.dram.current	bytes
 *   memory.dram.max		the same, or `max', which it is at first
 *
 * A frame counts for the group that its page is charged to: of a page of a file that is
 * the one that read it first, as for memory.current. The kernel's text counts for none.
 * Nothing more of a group that has all it may comes to DRAM, so its programs go on in
 * NVRAM: nobody waits, and nobody is killed. Scans move down what is cold of it, though
 * others leave frames free, and, where a limit is below what the group has, whatever it
 * has.
 *
 * Reclaim cannot take what is in DRAM. When it looks for memory of a group (memory.max),
 * pages of that group move down at once, where it finds them, and none comes for a while.
 *
 * The counters are the kernel's own (struct page_counter), in struct mem_cgroup (patch
 * 0039). A frame has a reference of its group.
 */
#include <linux/atomic.h>
#include <linux/cgroup.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/page_counter.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>
#include <linux/string.h>

#include "mixed.h"

/* A group that has all but such a part of what it may is short of frames: 1/32. */
#define SPARE_SHIFT 5

static bool is_lowered;
static struct shrinker *shrinker;
/* The next frame that reclaim looks at. */
static unsigned int hand;

/*
 * Groups of which reclaim has looked for memory, by their numbers, and when. If two have the
 * same place, the later one counts.
 */
static struct pressed {
	unsigned short id;
	unsigned long at; /* in jiffies; 0: never */
} pressed[256];

/* With a reference; NULL if there is none. */
static struct mem_cgroup *group_of_page(struct page *page)
{
	struct mem_cgroup *group;

	rcu_read_lock();
	group = folio_memcg(page_folio(page));
	if (group && !css_tryget(&group->css))
		group = NULL;
	rcu_read_unlock();
	return group;
}

/**
 * rem_group_of - the group that new pages of a process are charged to
 * @mm: the process
 *
 * Return: with a reference, for rem_group_put(); NULL if there are no groups.
 */
struct mem_cgroup *rem_group_of(struct mm_struct *mm)
{
	return mem_cgroup_disabled() ? NULL : get_mem_cgroup_from_mm(mm);
}

/** rem_group_put - the other half of rem_group_of(). @group: or NULL */
void rem_group_put(struct mem_cgroup *group)
{
	mem_cgroup_put(group);
}

/**
 * rem_group_charge - a frame will have a page
 * @home: the page
 * @mm: the process that gets it, if it is new and not charged yet; else NULL
 * @ret_group: set to what rem_group_uncharge() gets when the frame is free, which may be NULL
 *
 * Context: any.
 * Return: false if its group has all that it may.
 */
bool rem_group_charge(struct page *home, struct mm_struct *mm,
		      struct mem_cgroup **ret_group)
{
	struct mem_cgroup *group = mm ? rem_group_of(mm) : group_of_page(home);
	struct page_counter *full;

	if (group && !page_counter_try_charge(&group->dram, 1, &full)) {
		mem_cgroup_put(group);
		atomic64_inc(&rem_mixed_counts.limited);
		return false;
	}
	if (group)
		set_shrinker_bit(group, page_to_nid(home), shrinker->id);
	*ret_group = group;
	return true;
}

/** rem_group_uncharge - a frame is free. @group: what it was charged to, or NULL */
void rem_group_uncharge(struct mem_cgroup *group)
{
	if (!group)
		return;
	page_counter_uncharge(&group->dram, 1);
	mem_cgroup_put(group);
}

static struct pressed *pressed_of(struct mem_cgroup *group)
{
	return &pressed[mem_cgroup_id(group) % ARRAY_SIZE(pressed)];
}

static bool is_pressed(struct mem_cgroup *group)
{
	struct pressed *it;
	unsigned long at;

	if (!group)
		return false;
	it = pressed_of(group);
	at = READ_ONCE(it->at);
	return at && READ_ONCE(it->id) == mem_cgroup_id(group) &&
	       time_before(jiffies, at + REM_PRESSED_FOR);
}

static void press(struct mem_cgroup *group)
{
	struct pressed *it = pressed_of(group);

	WRITE_ONCE(it->id, mem_cgroup_id(group));
	WRITE_ONCE(it->at, jiffies ?: 1);
}

/*
 * How many frames a group, and those above it, may still get, without those that are spare if
 * @but_spare. Negative: so many are too many.
 */
static long left_for(struct mem_cgroup *group, bool but_spare)
{
	struct page_counter *counter = group ? &group->dram : NULL;
	long left = LONG_MAX;

	for (; counter; counter = counter->parent) {
		long max = READ_ONCE(counter->max);
		long spare = but_spare ? max >> SPARE_SHIFT : 0;

		left = min(left, max - spare - (long)page_counter_read(counter));
	}
	return left;
}

/**
 * rem_group_room - how many frames a group may still get
 * @group: or NULL
 *
 * None while reclaim looks for memory of it.
 *
 * Return: UINT_MAX at most.
 */
unsigned int rem_group_room(struct mem_cgroup *group)
{
	return is_pressed(group) ? 0 : clamp(left_for(group, false), 0, (long)UINT_MAX);
}

/**
 * rem_group_excess - how many frames a group has over its limit, or over one above it
 * @group: or NULL
 */
unsigned int rem_group_excess(struct mem_cgroup *group)
{
	return clamp(-left_for(group, false), 0, (long)UINT_MAX);
}

/**
 * rem_group_is_short - whether what is cold has to make room for others of the group
 * @group: or NULL
 */
bool rem_group_is_short(struct mem_cgroup *group)
{
	return left_for(group, true) < 1;
}

/**
 * rem_group_has_room - whether a process may get frames for a page that it uses now
 * @mm: the process
 * @pages: how many
 */
bool rem_group_has_room(struct mm_struct *mm, unsigned int pages)
{
	struct mem_cgroup *group = rem_group_of(mm);
	bool has_room = rem_group_room(group) >= pages;

	rem_group_put(group);
	if (!has_room)
		atomic64_inc(&rem_mixed_counts.limited);
	return has_room;
}

/**
 * rem_group_was_lowered - whether a limit was set since this was called last
 *
 * Processes that do not run have pages of such a group, too.
 */
bool rem_group_was_lowered(void)
{
	return READ_ONCE(is_lowered) && xchg(&is_lowered, false);
}

/*
 * Whether a group, or one above it, has nearly all memory that it may. When the machine's
 * memory is short, reclaim asks each group, too, which heat.c has an answer for.
 */
static bool is_at_limit(struct mem_cgroup *group)
{
	struct page_counter *counter;

	for (counter = &group->memory; counter; counter = counter->parent) {
		unsigned long max = min(READ_ONCE(counter->max), READ_ONCE(counter->high));

		if (page_counter_read(counter) + (max >> SPARE_SHIFT) >= max)
			return true;
	}
	return false;
}

static unsigned long reclaim_count(struct shrinker *it, struct shrink_control *control)
{
	if (!control->memcg || mem_cgroup_is_root(control->memcg) ||
	    !is_at_limit(control->memcg))
		return 0;
	return page_counter_read(&control->memcg->dram) ?: SHRINK_EMPTY;
}

static unsigned long reclaim_scan(struct shrinker *it, struct shrink_control *control)
{
	unsigned int count = rem_frames_count(), i, number;
	unsigned long left = control->nr_to_scan;

	/* Who holds a lock of a file system may hold those of a page, too. */
	if (!(control->gfp_mask & __GFP_FS))
		return SHRINK_STOP;
	press(control->memcg);
	for (i = 0; i < count && left; i++) {
		number = READ_ONCE(hand) % count;
		WRITE_ONCE(hand, number + 1);
		/* Reclaim finds the page of a copy by itself. */
		if (rem_frame_group(number) != control->memcg || rem_frame_is_lent(number))
			continue;
		rem_move_down_one(rem_frame_of(number));
		left--;
	}
	return left < control->nr_to_scan ? control->nr_to_scan - left : SHRINK_STOP;
}

static u64 current_read(struct cgroup_subsys_state *css, struct cftype *type)
{
	return (u64)page_counter_read(&mem_cgroup_from_css(css)->dram) * PAGE_SIZE;
}

static int max_show(struct seq_file *file, void *unused)
{
	unsigned long max = READ_ONCE(mem_cgroup_from_seq(file)->dram.max);

	if (max == PAGE_COUNTER_MAX)
		seq_puts(file, "max\n");
	else
		seq_printf(file, "%llu\n", (u64)max * PAGE_SIZE);
	return 0;
}

static ssize_t max_write(struct kernfs_open_file *file, char *text, size_t bytes,
			 loff_t at)
{
	struct mem_cgroup *group = mem_cgroup_from_css(of_css(file));
	unsigned long max;
	int err = page_counter_memparse(strstrip(text), "max", &max);

	if (err)
		return err;
	xchg(&group->dram.max, max);
	WRITE_ONCE(is_lowered, true);
	return bytes;
}

static struct cftype files[] = {
	{
		.name = "dram.current",
		.flags = CFTYPE_NOT_ON_ROOT,
		.read_u64 = current_read,
	},
	{
		.name = "dram.max",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = max_show,
		.write = max_write,
	},
	{ } /* the end */
};

/** rem_groups_open - groups get their files. Return: 0 or a negative errno. */
int __init rem_groups_open(void)
{
	if (mem_cgroup_disabled())
		return 0;
	shrinker = shrinker_alloc(SHRINKER_MEMCG_AWARE | SHRINKER_NONSLAB, "remanence-dram-group");
	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = reclaim_count;
	shrinker->scan_objects = reclaim_scan;
	shrinker_register(shrinker);
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, files);
}
