// SPDX-License-Identifier: GPL-2.0-only
/*
 * DRAM of more than one kind. Where some of it is faster (HBM beside DDR), it is a level of its
 * own, in front of the rest: the hottest pages have it. Which memory that is the command line says:
 *
 *   remanence.dram_levels=SIZE@START[,SIZE@START...][/SIZE@START...]
 *
 * The fastest level comes first, and '/' is between two. What no range has is the last level.
 *
 * A frame has its home in NVRAM, whichever level it is of. So Stop, Go, and the bound on what may
 * differ know nothing of levels. A page takes a frame of the fastest level that has one. After each
 * scan the hottest pages come to the fastest level, until what would leave it for them is nearly as
 * hot, or is as hot as the level at which the hot pages fill it (rem_levels_sort()).
 */
#include <linux/ctype.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <asm/memory_kinds.h>
#include <asm/sparsemem.h>

#include "../machine.h"
#include "mixed.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

static char words[256];
module_param_string(dram_levels, words, sizeof(words), 0444);
MODULE_PARM_DESC(dram_levels,
		 "ranges of faster DRAM, the fastest first: SIZE@START,.../...");

#define SPANS_MAX 8
/* Of the memory below: firmware and the loader use it before a kernel runs. */
#define LOW_BYTES SZ_16M
/* Frames of a level that are kept free for pages that begin there: 1/32. */
#define SPARE_SHIFT 5
/* A page that takes another one's place is so much hotter, or both would take turns. */
#define HOTTER (REM_HEAT_MAX / 4)

/* A part of a level that the command line names; in the order of the levels, fastest first. */
struct span {
	u64 start;
	u64 end;
	unsigned int level;
};

static struct span spans[SPANS_MAX] __initdata;
static unsigned int span_count __initdata;
/* Their number, with the last one. */
static unsigned int level_count = 1;

/** rem_levels_count - Return: the number of levels of DRAM, at least 1. */
unsigned int rem_levels_count(void)
{
	return level_count;
}

/* Return: false if it may be none. */
static bool __init add_span(u64 start, u64 bytes, unsigned int level)
{
	u64 end = start + bytes;
	unsigned int i;

	if (span_count == SPANS_MAX || end <= start ||
	    !IS_ALIGNED(start | end, SUBSECTION_SIZE))
		return false;
	for (i = 0; i < span_count; i++)
		if (start < spans[i].end && end > spans[i].start)
			return false;
	spans[span_count++] = (struct span){ start, end, level };
	return true;
}

static bool __init parse(char *at)
{
	u64 bytes, start;

	while (*at) {
		bytes = memparse(at, &at);
		if (*at != '@' || !isdigit(at[1]))
			return false;
		start = memparse(at + 1, &at);
		if (level_count == REM_LEVELS_MAX ||
		    !add_span(start, bytes, level_count - 1))
			return false;
		if (*at == '/')
			level_count++;
		else if (*at && *at != ',')
			return false;
		if (*at && !*++at)
			return false; /* nothing behind it */
	}
	if (span_count)
		level_count++;
	return true;
}

/* The parts of a range of DRAM that are of a level which the command line names. */
static int __init take_spans(rem_level_take take, unsigned int level, u64 start,
			     u64 end)
{
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < span_count; i++) {
		u64 begin = max(start, spans[i].start), behind = min(end, spans[i].end);

		if (spans[i].level == level && begin < behind)
			err = take(level, begin, behind);
	}
	return err;
}

/* What no span has. */
static int __init take_rest(rem_level_take take, u64 start, u64 end)
{
	int err = 0;

	while (!err && start < end) {
		u64 behind = end, next = end;
		unsigned int i;

		for (i = 0; i < span_count; i++) {
			if (spans[i].start <= start && spans[i].end > start) {
				behind = start;
				next = min(end, spans[i].end);
				break;
			}
			if (spans[i].start > start && spans[i].start < behind) {
				behind = spans[i].start;
				next = behind;
			}
		}
		if (start < behind)
			err = take(level_count - 1, start, behind);
		start = next;
	}
	return err;
}

/* All of a level, without what firmware has, or may have at another boot. */
static int __init take_level(rem_level_take take, unsigned int level)
{
	unsigned int index = 0;
	u64 start, end;
	int err = 0;

	while (!err && memory_kinds_dram(&index, &start, &end)) {
		start = ALIGN(max_t(u64, start, LOW_BYTES), SUBSECTION_SIZE);
		end = end > REM_DRAM_TOLERANCE_BYTES ? end - REM_DRAM_TOLERANCE_BYTES : 0;
		end = ALIGN_DOWN(end, SUBSECTION_SIZE);
		if (start >= end)
			continue;
		err = level + 1 < level_count ? take_spans(take, level, start, end) :
						take_rest(take, start, end);
	}
	return err;
}

static bool __init has_frames(void)
{
	unsigned int level;

	for (level = 0; level < level_count; level++)
		if (!rem_level_frames(level))
			return false;
	return true;
}

/**
 * rem_levels_open - find all DRAM that pages may have
 * @take: called for each range of it: those of faster levels come first. Start and end are
 *	aligned to sub-sections.
 *
 * Return: 0, -EINVAL if the command line is wrong, or what @take returns if that is not 0.
 */
int __init rem_levels_open(rem_level_take take)
{
	unsigned int level;
	int err = 0;

	if (!parse(words)) {
		pr_err("remanence: dram_levels=%s: it has to be SIZE@START[,...][/...], with at most %u levels and %u ranges, each of whole 2 MiB\n",
		       words, REM_LEVELS_MAX - 1, SPANS_MAX);
		return -EINVAL;
	}
	for (level = 0; !err && level < level_count; level++)
		err = take_level(take, level);
	/* Of the pages' own tables: the command line is right. */
	if (err == -EINVAL)
		err = -ENXIO;
	if (!err && level_count > 1 && !has_frames()) {
		pr_err("remanence: dram_levels=%s: there is no DRAM for pages in one of its levels, or behind the last one\n",
		       words);
		err = -EINVAL;
	}
	return err;
}

static unsigned int spare_frames(unsigned int level)
{
	return max(rem_level_frames(level) >> SPARE_SHIFT, 1u);
}

/* Of which the heat of a frame is: a copy of a file's page has that of its page. */
static unsigned long page_of(unsigned int number)
{
	struct page *frame = rem_frame_of(number), *home;

	home = rem_frame_is_lent(number) ? rem_frame_home(frame) : NULL;
	return page_to_pfn(home ?: frame);
}

/* Return: whether a page is cooler than that, and may leave its level for a slower one. */
static bool is_cooler(unsigned int number, unsigned int heat)
{
	unsigned long pfn = page_of(number);

	return rem_frame_is_used(number) && !rem_heat_is_new(pfn) &&
	       rem_heat_now(pfn) < heat;
}

/* Return: the heat of a page that may come to a faster level, or 0. Copies end, and come again. */
static unsigned int hot_of(unsigned int number)
{
	unsigned long pfn = page_of(number);

	return !rem_frame_is_used(number) || rem_frame_is_lent(number) ||
			       rem_heat_is_new(pfn) ?
		       0 :
		       rem_heat_now(pfn);
}

/* A page leaves its level: for the next one that has a frame, else for its home. */
static void leave(unsigned int number, unsigned int level)
{
	struct page *frame = rem_frame_of(number);

	if (rem_frame_is_lent(number)) {
		rem_files_leave(number);
		rem_map_flush(); /* else its frame is not free yet */
		return;
	}
	while (++level < level_count)
		if (rem_level_free(level) && rem_move_over(frame, level))
			return;
	rem_move_down_one(frame);
}

/*
 * Pages that are cooler than @heat leave a level until so many of its frames are free.
 * @next: where to go on looking for such
 * Return: whether they are.
 */
static bool make_room(unsigned int level, unsigned int *next, unsigned int heat,
		      unsigned int frames)
{
	unsigned int end = rem_level_end(level);

	while (rem_level_free(level) < frames) {
		while (*next < end && !is_cooler(*next, heat))
			++*next;
		if (*next >= end)
			return false;
		leave((*next)++, level);
		cond_resched();
	}
	return true;
}

/* Pages of a heat come to a level. Return: false if it has no more room for them. */
static bool bring(unsigned int level, unsigned int *next, unsigned int heat,
		  unsigned int least)
{
	unsigned int number;

	for (number = rem_level_end(level); number < rem_frames_count();
	     number++) {
		if (hot_of(number) != heat)
			continue;
		if (!make_room(level, next, min(least, heat - HOTTER + 1), 1))
			return false;
		rem_move_over(rem_frame_of(number), level);
		cond_resched();
	}
	return true;
}

static void sort(unsigned int level)
{
	unsigned int end = rem_level_end(level),
		     least = rem_heat_of_level(level);
	unsigned int next = end - rem_level_frames(level), heat, number;
	bool has[REM_HEAT_MAX + 1] = {};

	for (number = end; number < rem_frames_count(); number++)
		has[hot_of(number)] = true;
	for (heat = REM_HEAT_MAX; heat >= max(least, HOTTER); heat--)
		if (has[heat] && !bring(level, &next, heat, least))
			break;
	next = end - rem_level_frames(level);
	make_room(level, &next, (least + 1) / 2, spare_frames(level));
}

/**
 * rem_levels_sort - pages with frames change their level, if there is more than one
 *
 * Context: the thread, after a scan, whose heat it goes by.
 */
void rem_levels_sort(void)
{
	unsigned int level;

	for (level = 0; level + 1 < level_count; level++)
		sort(level);
}

/** rem_levels_show - for sysfs: a line for each level. Return: number of bytes. */
ssize_t rem_levels_show(char *buf)
{
	unsigned int level;
	ssize_t at = 0;

	for (level = 0; level < level_count; level++)
		at += sysfs_emit_at(buf, at, "%u frames %u used %u heat %u\n",
				    level, rem_level_frames(level),
				    rem_level_frames(level) -
					    rem_level_free(level),
				    rem_heat_of_level(level));
	return at;
}
