// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: pmcore
 *
 * Takes a region of persistent memory over and gives out segments of it. What
 * is on media is the business of the core (region.h); here are names, rights,
 * devices and who uses what.
 *
 * A segment that is open, mapped or a disk has users, and is neither destroyed
 * nor moved nor made smaller.
 */
#include <linux/cred.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uuid.h>

#include "pmcore.h"

struct pmcore pmcore;

static bool format;
module_param(format, bool, 0444);
MODULE_PARM_DESC(format,
		 "create a region if the memory is blank; an existing region is never changed");

static bool force;
module_param(force, bool, 0444);
MODULE_PARM_DESC(force,
		 "with format=1: overwrite any other content of the memory");

static uint slots = 1024;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "maximum number of segments of a new region");

/**
 * pmcore_may() - whether the caller may use a segment
 * @record: the segment
 * @mask: MAY_READ, MAY_WRITE
 *
 * The rule of files: owner, group, others; root may all.
 */
bool pmcore_may(const struct rem_pm_segment *record, int mask)
{
	u32 mode = record->mode;

	if (capable(CAP_DAC_OVERRIDE))
		return true;
	if (uid_eq(current_fsuid(), make_kuid(&init_user_ns, record->uid)))
		mode >>= 6;
	else if (in_group_p(make_kgid(&init_user_ns, record->gid)))
		mode >>= 3;
	return (mode & mask) == mask;
}

/**
 * pmcore_is_owner() - whether the caller may destroy and change a segment
 * @record: the segment
 */
bool pmcore_is_owner(const struct rem_pm_segment *record)
{
	return capable(CAP_SYS_ADMIN) ||
	       uid_eq(current_fsuid(), make_kuid(&init_user_ns, record->uid));
}

/**
 * pmcore_event() - wake pollers: something changed
 */
void pmcore_event(void)
{
	atomic64_inc(&pmcore.events);
	wake_up_interruptible(&pmcore.changed);
}

/**
 * pmcore_change_begin() - before a segment or the region is changed
 *
 * Context: may sleep. Return: 0, then the lock is held; -EINTR.
 */
int pmcore_change_begin(void)
{
	if (mutex_lock_killable(&pmcore.changing))
		return -EINTR;
	down_write(&pmcore.lock);
	return 0;
}

/**
 * pmcore_change_end() - undo it
 */
void pmcore_change_end(void)
{
	up_write(&pmcore.lock);
	mutex_unlock(&pmcore.changing);
}

/* While content is made: others may look, open and use what there is. */
static void aside(struct pm_region *region, bool begins)
{
	if (begins)
		up_write(&pmcore.lock);
	else
		down_write(&pmcore.lock);
}

/**
 * pmcore_lock_settled() - lock the region at a time at which a segment is not moved
 * @slot: the segment
 *
 * Context: may sleep; the lock is held. Return: 0; -EINTR, and the lock is not held.
 * Where it was given back meanwhile: -EAGAIN, and it is held.
 */
int pmcore_lock_settled(u32 slot)
{
	bool waited = false;

	while (slot < pmcore.region.super.slots && pmcore.slot[slot].moving) {
		up_write(&pmcore.lock);
		if (mutex_lock_killable(&pmcore.changing))
			return -EINTR;
		mutex_unlock(&pmcore.changing);
		down_write(&pmcore.lock);
		waited = true;
	}
	return waited ? -EAGAIN : 0;
}

/**
 * pmcore_env() - how what is written to a segment is made durable
 * @slot: the segment, which the caller holds
 *
 * A segment of persist=fof is flushed like any other while the platform does not
 * promise to save the caches (promise.c): its users are the same, whenever that is.
 *
 * Context: any.
 */
struct pm_env *pmcore_env(u32 slot)
{
	const struct rem_pm_segment *record = &pmcore.region.entry[slot].record;

	return record->persist == REM_PM_FOF ? &pmcore_fof : NULL;
}

/* The slot of a name, when it is not moved; the lock is held, unless -EINTR. */
static int find_settled(const char *name, u32 *ret_slot)
{
	int err;

	down_write(&pmcore.lock);
	do {
		*ret_slot = pm_segment_find(&pmcore.region, name);
		err = pmcore_lock_settled(*ret_slot);
	} while (err == -EAGAIN);
	return err;
}

int pmcore_get(const char *name, int mask, struct pmcore_segment *segment)
{
	const struct rem_pm_segment *record;
	u32 slot;
	int err = find_settled(name, &slot);

	if (err)
		return err;
	if (slot == PM_SLOT_NONE) {
		err = -ENOENT;
	} else if (pmcore.region.entry[slot].state != PM_SLOT_USED) {
		err = -EUCLEAN;
	} else {
		record = &pmcore.region.entry[slot].record;
		if (!pmcore_may(record, mask & ~PMCORE_CLAIM))
			err = -EACCES;
		else if (mask & PMCORE_CLAIM && (pmcore.slot[slot].writers ||
						 pmcore.slot[slot].claimed))
			err = -EBUSY;
	}
	if (!err) {
		segment->slot = slot;
		segment->claimed = mask & PMCORE_CLAIM;
		segment->at = pm_segment_at(&pmcore.region, slot);
		segment->phys = pmcore.phys + record->offset;
		segment->has_pages = pmcore.has_pages;
		segment->bytes = record->bytes;
		segment->type = record->type;
		segment->block_bytes = record->block_bytes;
		memcpy(segment->uuid, record->uuid, sizeof(segment->uuid));
		memcpy(segment->name, record->name, sizeof(segment->name));
		pmcore.slot[slot].users++;
		pmcore.slot[slot].claimed |= segment->claimed;
	}
	up_write(&pmcore.lock);
	if (!err)
		segment->env = pmcore_env(slot);
	return err;
}
EXPORT_SYMBOL_GPL(pmcore_get);

void pmcore_put(const struct pmcore_segment *segment)
{
	down_write(&pmcore.lock);
	pmcore.slot[segment->slot].users--;
	if (segment->claimed)
		pmcore.slot[segment->slot].claimed = false;
	up_write(&pmcore.lock);
}
EXPORT_SYMBOL_GPL(pmcore_put);

/* @err: why there is no region. What else is there is lost only by force=1. */
static int make_region(int err)
{
	u64 bytes = pmcore.asked_bytes ?: pmcore.bytes;
	u64 offset = 0;
	struct pm_format wanted = {
		.bytes = round_down(bytes, REM_PM_UNIT_BYTES),
		.slots = slots,
		.created_ns = ktime_get_real_ns(),
	};

	if (!force && err == -ENOMEDIUM)
		err = pm_region_check_blank(NULL, pmcore.base, pmcore.bytes, &wanted,
					    &offset);
	if (!force && err == -ENOTEMPTY)
		pr_err("pmcore: %s: byte %llu is not zero: find out what is there; format=1 force=1 makes a region over it\n",
		       pmcore.source, offset);
	if (!force && err)
		return err;
	generate_random_uuid(wanted.uuid);
	/* A cut from here on leaves no region rather than a damaged one. */
	pm_region_wipe(NULL, pmcore.base);
	return pm_region_format(NULL, pmcore.base, &wanted);
}

/*
 * The size that the region is to have: that of its memory, but of memory that
 * pm= put aside what it has or wishes for.
 */
static u64 wanted_bytes(const struct rem_pm_super *super)
{
	u64 bytes = super->wish_bytes ?: super->region_bytes;

	return pmcore.asked_bytes ? min(bytes, pmcore.bytes) : pmcore.bytes;
}

static int open_with_size(const struct rem_pm_super *super, u64 bytes)
{
	memset(pmcore.region_memory, 0, pm_region_volatile_bytes(super->slots));
	return pm_region_open(&pmcore.region, NULL, pmcore.base, bytes,
			      pmcore.region_memory, true);
}

static int open_region(void)
{
	struct rem_pm_super super;
	size_t need;
	int err = pm_region_peek(pmcore.base, pmcore.bytes, &super);

	if (format && (err == -ENOMEDIUM || (err == -EUCLEAN && force))) {
		err = make_region(err);
		if (!err)
			err = pm_region_peek(pmcore.base, pmcore.bytes, &super);
	}
	if (err)
		return err;
	err = pmcore_dirty_init();
	if (err)
		return err;
	need = pm_region_volatile_bytes(super.slots);
	pmcore.region_memory = kvzalloc(need, GFP_KERNEL);
	pmcore.slot = kvcalloc(super.slots, sizeof(*pmcore.slot), GFP_KERNEL);
	if (!pmcore.region_memory || !pmcore.slot)
		return -ENOMEM;
	err = open_with_size(&super, wanted_bytes(&super));
	if (err != -EFBIG || !pmcore.asked_bytes || !super.wish_bytes)
		return err;
	/* Somebody made a segment where the region was to end. */
	pr_warn("pmcore: %s: a size of %llu bytes would cut off a segment: it stays %llu\n",
		pmcore.source, super.wish_bytes, super.region_bytes);
	err = open_with_size(&super, super.region_bytes);
	return err ?: pm_region_wish(&pmcore.region, 0);
}

static void say_why(int err)
{
	const char *why = "it cannot be opened";

	if (err == -ENOMEDIUM)
		why = "no region has been made there: load with format=1 to make one";
	else if (err == -EUCLEAN)
		why = "its superblock is damaged in all copies, or something else is there";
	else if (err == -ENOTEMPTY)
		why = "something else is there";
	else if (err == -EPROTONOSUPPORT)
		why = "it was made by a newer version";
	else if (err == -EFBIG)
		why = "the memory is smaller than its segments need";
	pr_err("pmcore: %s: %s (%pe)\n", pmcore.source, why, ERR_PTR(err));
}

static void free_all(void)
{
	kvfree(pmcore.region_memory);
	kvfree(pmcore.slot);
	pmcore_dirty_exit();
	pmcore_lost_exit();
	pmcore_unprotect();
	pmcore_source_put();
}

static int __init pmcore_init(void)
{
	int err;

	mutex_init(&pmcore.changing);
	init_rwsem(&pmcore.lock);
	init_waitqueue_head(&pmcore.changed);
	err = pmcore_source_get();
	if (err)
		return err;
	err = pmcore_lost_init();
	if (err)
		goto err_free;
	pmcore_promise_begin();
	err = pmcore_protect();
	if (!err)
		err = open_region();
	if (err) {
		say_why(err);
		goto err_free;
	}
	pmcore.region.aside = aside;
	err = pmcore_ctl_init();
	if (err)
		goto err_free;
	err = pmcore_dev_init();
	if (err)
		goto err_ctl;
	err = pmcore_promise_init();
	if (err)
		goto err_dev;
	pr_info("pmcore: %s: %llu bytes at %pa, %u segments, %u refused, %llu repaired\n",
		pmcore.source, pmcore.region.super.region_bytes, &pmcore.phys,
		pmcore.region.used, pmcore.region.refused,
		pmcore.region.repaired);
	return 0;

err_dev:
	pmcore_dev_exit();
err_ctl:
	pmcore_ctl_exit();
err_free:
	free_all();
	return err;
}

static void __exit pmcore_exit(void)
{
	pmcore_promise_exit();
	pmcore_dev_exit();
	pmcore_ctl_exit();
	free_all();
}

module_init(pmcore_init);
module_exit(pmcore_exit);
MODULE_DESCRIPTION("Persistent memory: a region and its segments");
MODULE_LICENSE("GPL");
