// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rule `damon': what comes to DRAM is what the kernel's monitor of accesses (mm/damon) finds
 * hot, as its schemes MIGRATE_HOT do, with a quota that follows the room: after each aggregation
 * the regions in which most samples were used are taken, hottest first, until their pages are
 * as many as DRAM has room for. The next scan moves their pages up.
 *
 * DAMON looks at pages of the kernel's lists. Frames are on none, so it monitors NVRAM alone,
 * and what leaves DRAM is chosen by the hand of policy.c.
 */
#include <linux/damon.h>
#include <linux/ioport.h>
#include <linux/pfn.h>
#include <linux/spinlock.h>

#include "mixed.h"

#define SAMPLES 20 /* of an aggregation: DAMON's own number */
#define REGIONS_MIN 10
#define REGIONS_MAX 1000 /* the same */
#define RANGES_MAX 16 /* of main memory */

struct hot_region {
	unsigned long first, end; /* page frame numbers */
};

/* Regions that are hot, by address. */
static struct hot_region hot[REGIONS_MAX];
static unsigned int hot_count;
static DEFINE_SPINLOCK(hot_lock);

static struct damon_ctx *monitor;

static unsigned long pages_of(const struct damon_region *region)
{
	return PFN_DOWN(region->ar.end) - PFN_UP(region->ar.start);
}

/*
 * The least number of samples that a region was used in, so that it and all that are hotter fill
 * the room. Of the last ones as many pages come as still have room.
 */
static unsigned int least_hot(struct damon_target *target, unsigned long room)
{
	unsigned long pages[SAMPLES + 1] = {}, sum = 0;
	struct damon_region *region;
	unsigned int least = SAMPLES + 1;

	damon_for_each_region(region, target)
		pages[min(region->nr_accesses, SAMPLES)] += pages_of(region);
	while (least > 1 && sum < room)
		sum += pages[--least];
	return least;
}

static int after_aggregation(struct damon_ctx *ctx)
{
	struct damon_target *target;
	struct damon_region *region;
	unsigned int least;

	damon_for_each_target(target, ctx) {
		least = least_hot(target, rem_policy_quota());
		spin_lock(&hot_lock);
		hot_count = 0;
		damon_for_each_region(region, target)
			if (region->nr_accesses >= least && hot_count < REGIONS_MAX)
				hot[hot_count++] = (struct hot_region){
					PFN_UP(region->ar.start), PFN_DOWN(region->ar.end)
				};
		spin_unlock(&hot_lock);
	}
	return 0;
}

/**
 * rem_damon_is_hot - Return: whether a page of NVRAM is in a region that was hot
 * @pfn: its number
 *
 * Context: any but interrupts.
 */
bool rem_damon_is_hot(unsigned long pfn)
{
	unsigned int low = 0, high;
	bool found;

	spin_lock(&hot_lock);
	high = hot_count;
	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (hot[middle].end <= pfn)
			low = middle + 1;
		else
			high = middle;
	}
	found = low < hot_count && hot[low].first <= pfn;
	spin_unlock(&hot_lock);
	return found;
}

struct ranges {
	struct damon_addr_range of[RANGES_MAX];
	unsigned int count;
};

static int take_range(struct resource *res, void *arg)
{
	struct ranges *ranges = arg;

	if (ranges->count < RANGES_MAX)
		ranges->of[ranges->count++] = (struct damon_addr_range){
			res->start, res->end + 1
		};
	return 0;
}

static int set_up(struct damon_ctx *ctx, unsigned int period_us)
{
	struct damon_attrs attrs = {
		.sample_interval = max(period_us / SAMPLES, 1u),
		.aggr_interval = max(period_us / SAMPLES, 1u) * SAMPLES,
		.ops_update_interval = 60 * USEC_PER_SEC,
		.min_nr_regions = REGIONS_MIN,
		.max_nr_regions = REGIONS_MAX,
	};
	struct damon_target *target;
	struct ranges ranges = {};
	int err;

	err = damon_select_ops(ctx, DAMON_OPS_PADDR) ?: damon_set_attrs(ctx, &attrs);
	if (err)
		return err;
	target = damon_new_target();
	if (!target)
		return -ENOMEM;
	damon_add_target(ctx, target);
	walk_system_ram_res(0, ULONG_MAX, &ranges, take_range);
	ctx->callback.after_aggregation = after_aggregation;
	return damon_set_regions(target, ranges.of, ranges.count);
}

/**
 * rem_damon_begin - monitor main memory
 * @period_us: time of an aggregation, in microseconds
 *
 * Context: process; one at a time.
 * Return: 0, -EBUSY if somebody else uses DAMON, or another negative errno.
 */
int rem_damon_begin(unsigned int period_us)
{
	int err;

	monitor = damon_new_ctx();
	if (!monitor)
		return -ENOMEM;
	err = set_up(monitor, period_us) ?: damon_start(&monitor, 1, true);
	if (err) {
		damon_destroy_ctx(monitor);
		monitor = NULL;
	}
	return err;
}

/** rem_damon_end - monitor no more. Context: as rem_damon_begin(), which has succeeded. */
void rem_damon_end(void)
{
	damon_stop(&monitor, 1);
	damon_destroy_ctx(monitor);
	monitor = NULL;
	spin_lock(&hot_lock);
	hot_count = 0;
	spin_unlock(&hot_lock);
}
