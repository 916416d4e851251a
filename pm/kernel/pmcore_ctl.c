// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/pmctl: operations on segments as a whole. Opened for reading it shows
 * them; opened for writing it creates them; only root may change what belongs to
 * another user.
 */
#include <linux/compat.h>
#include <linux/cred.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/uuid.h>

#include "pmcore.h"
#include "pminit.h"

#define CREATE_TRACE_POINTS
#include "pmcore_trace.h"

/* For programs of 32 and of 64 bits alike. */
static_assert(sizeof(struct pm_ioc_status) == 192);
static_assert(sizeof(struct pm_ioc_segment) == 184);
static_assert(sizeof(struct pm_ioc_block_status) == 160);
static_assert(sizeof(struct pm_ioc_transfer) == 80);
static_assert(sizeof(struct pm_ioc_disk) == 96);
static_assert(sizeof(struct pm_ioc_bad) == 88);
static_assert(sizeof(struct pm_ioc_resize) == 80);
static_assert(sizeof(struct pm_ioc_lock) == 72);

/* Programs see the numbers of the media. */
static_assert(PM_TYPE_RAW == REM_PM_RAW && PM_TYPE_BLOCK == REM_PM_BLOCK);
static_assert(PM_PERSIST_FOC == REM_PM_FOC && PM_PERSIST_FOF == REM_PM_FOF);

static void fill_status(struct pm_ioc_status *status)
{
	const struct pm_region *region = &pmcore.region;

	memset(status, 0, sizeof(*status));
	status->region_bytes = region->super.region_bytes;
	status->base_bytes = region->super.base_bytes;
	status->free_bytes = region->extents.free_units * REM_PM_UNIT_BYTES;
	status->wish_bytes = region->super.wish_bytes;
	status->repaired = region->repaired;
	status->damaged = region->damaged;
	status->events = atomic64_read(&pmcore.events);
	status->phys = pmcore.phys;
	status->slots = region->super.slots;
	status->used = region->used;
	status->refused = region->refused;
	status->flags = (pmcore.has_pages ? PM_HAS_DAX : 0) |
			(pmcore.limit_bytes ? PM_HAS_SAME_ADDRESS : 0) |
			(pmcore.protected ? PM_HAS_PROTECTION : 0) |
			(pmcore_flush_on_fail() ? PM_HAS_FOF : 0);
	status->address = pmcore.limit_bytes ? PMINIT_ADDRESS : 0;
	status->limit_bytes = pmcore.limit_bytes;
	status->windows = pmcore_windows_opened();
	memcpy(status->uuid, region->super.uuid, sizeof(status->uuid));
	memcpy(status->source, pmcore.source, sizeof(status->source));
}

static void fill_segment(struct pm_ioc_segment *segment, u32 slot)
{
	const struct pm_entry *entry = &pmcore.region.entry[slot];
	const struct rem_pm_segment *record = &entry->record;

	memset(segment, 0, sizeof(*segment));
	segment->slot = slot;
	segment->state = PM_STATE_REFUSED;
	if (entry->state != PM_SLOT_USED)
		return;
	segment->state = PM_STATE_USED;
	memcpy(segment->name, record->name, sizeof(segment->name));
	segment->type = record->type;
	segment->persist = record->persist;
	segment->offset = record->offset;
	segment->bytes = record->bytes;
	segment->extent_bytes = record->extent_bytes;
	segment->generation = record->generation;
	segment->created_ns = record->created_ns;
	segment->map_address = record->map_address;
	segment->uid = record->uid;
	segment->gid = record->gid;
	segment->mode = record->mode;
	segment->block_bytes = record->block_bytes;
	segment->users = pmcore.slot[slot].users;
	memcpy(segment->uuid, record->uuid, sizeof(segment->uuid));
}

static int get(struct pm_ioc_segment *segment)
{
	u32 slot = segment->slot;

	if (slot == PM_SLOT_BY_NAME)
		slot = pm_segment_find(&pmcore.region, segment->name);
	if (slot >= pmcore.region.super.slots)
		return -ENOENT;
	if (pmcore.region.entry[slot].state == PM_SLOT_FREE)
		return -ENOENT;
	fill_segment(segment, slot);
	return 0;
}

static int create(struct pm_ioc_segment *segment)
{
	struct pm_segment_new new = {
		.name = segment->name,
		.type = segment->type,
		.persist = segment->persist,
		.bytes = segment->bytes,
		.block_bytes = segment->block_bytes,
		.uid = from_kuid(&init_user_ns, current_fsuid()),
		.gid = from_kgid(&init_user_ns, current_fsgid()),
		.mode = segment->mode,
		.map_address = segment->map_address,
		.created_ns = ktime_get_real_ns(),
	};
	u32 slot;
	int err;

	if (segment->persist == REM_PM_FOF && !pmcore_flush_on_fail())
		return -EOPNOTSUPP;
	generate_random_uuid(new.uuid);
	err = pm_segment_create(&pmcore.region, &new, &slot);
	if (err)
		return err;
	err = pmcore_dev_add(slot);
	if (err) {
		pm_segment_destroy(&pmcore.region, slot);
		return err;
	}
	fill_segment(segment, slot);
	return 0;
}

/* The slot of a segment that the caller owns, or a negative errno. */
static int owned(const struct pm_ioc_segment *segment)
{
	u32 slot = pm_segment_find(&pmcore.region, segment->name);

	if (slot == PM_SLOT_NONE)
		return -ENOENT;
	if (!pmcore_is_owner(&pmcore.region.entry[slot].record))
		return -EPERM;
	return slot;
}

static int destroy(const struct pm_ioc_segment *segment)
{
	int slot = owned(segment);
	int err;

	if (slot < 0)
		return slot;
	if (pmcore.slot[slot].users)
		return -EBUSY;
	pmcore_dev_remove(slot);
	err = pm_segment_destroy(&pmcore.region, slot);
	if (err)
		pmcore_dev_add(slot);
	return err;
}

static int resize(struct pm_ioc_segment *segment)
{
	int slot = owned(segment);
	const struct pm_entry *entry;
	bool used;
	int err;

	if (slot < 0)
		return slot;
	entry = &pmcore.region.entry[slot];
	used = pmcore.slot[slot].users;
	/* Users of it know where it is and how far it goes. */
	if (used && segment->bytes < entry->record.bytes)
		return -EBUSY;
	/* Its blocks must be copied: PMBC_IOC_RESIZE. */
	if (entry->record.type == REM_PM_BLOCK)
		return -EOPNOTSUPP;
	pmcore.slot[slot].moving = !used;
	err = pm_segment_resize(&pmcore.region, slot, segment->bytes,
				!used && segment->flags & PM_FLAG_MAY_MOVE);
	pmcore.slot[slot].moving = false;
	if (!err)
		fill_segment(segment, slot);
	return err;
}

static int change(const struct pm_ioc_segment *segment)
{
	int slot = owned(segment);
	struct rem_pm_segment record;
	int err;

	if (slot < 0)
		return slot;
	record = pmcore.region.entry[slot].record;
	if ((segment->uid != record.uid || segment->gid != record.gid) &&
	    !capable(CAP_CHOWN))
		return -EPERM;
	record.uid = segment->uid;
	record.gid = segment->gid;
	record.mode = segment->mode;
	record.map_address = segment->map_address;
	err = pm_segment_change(&pmcore.region, slot, &record);
	if (!err) {
		pmcore_dev_remove(slot);
		err = pmcore_dev_add(slot);
	}
	return err;
}

int pmcore_rebuild(const char *name, u64 bytes, pm_fill fill, void *context)
{
	u32 slot;
	int err = pmcore_change_begin();

	if (err)
		return err;
	slot = pm_segment_find(&pmcore.region, name);
	if (slot == PM_SLOT_NONE)
		err = -ENOENT;
	else if (!pmcore_is_owner(&pmcore.region.entry[slot].record))
		err = -EPERM;
	else if (pmcore.region.entry[slot].record.type != REM_PM_BLOCK)
		err = -EMEDIUMTYPE;
	else if (pmcore.slot[slot].users)
		err = -EBUSY;
	if (!err) {
		pmcore.slot[slot].moving = true;
		err = pm_segment_rebuild(&pmcore.region, slot, bytes, fill,
					 context);
		pmcore.slot[slot].moving = false;
	}
	pmcore_change_end();
	trace_pmcore_segment(PM_IOC_RESIZE, name, bytes, err);
	if (!err)
		pmcore_event();
	return err;
}
EXPORT_SYMBOL_GPL(pmcore_rebuild);

static int give_up(const struct pm_ioc_segment *segment)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return pm_segment_give_up(&pmcore.region, segment->slot);
}

/* All of them, also behind one that cannot be put right: the first error. */
static int scrub(void)
{
	int err = pm_region_scrub(&pmcore.region, PM_SLOT_NONE);
	u32 slot;

	for (slot = 0; slot < pmcore.region.super.slots; slot++) {
		int one = 0;

		if (slot % PM_REST == PM_REST - 1)
			cond_resched();
		/* The status has the number of those that were refused. */
		if (pmcore.region.entry[slot].state != PM_SLOT_REFUSED)
			one = pm_region_scrub(&pmcore.region, slot);
		err = err ?: one;
	}
	return err;
}

static int act(unsigned int command, struct pm_ioc_segment *segment)
{
	switch (command) {
	case PM_IOC_CREATE:
		return create(segment);
	case PM_IOC_DESTROY:
		return destroy(segment);
	case PM_IOC_RESIZE:
		return resize(segment);
	case PM_IOC_GIVE_UP:
		return give_up(segment);
	default:
		return change(segment);
	}
}

static int change_one(unsigned int command, struct pm_ioc_segment *segment)
{
	int err = pmcore_change_begin();

	if (err)
		return err;
	err = act(command, segment);
	pmcore_change_end();
	trace_pmcore_segment(command, segment->name, segment->bytes, err);
	if (!err)
		pmcore_event();
	return err;
}

static int get_one(struct pm_ioc_segment *segment)
{
	int err;

	down_read(&pmcore.lock);
	err = get(segment);
	up_read(&pmcore.lock);
	return err;
}

static long on_segment(struct file *file, unsigned int command,
		       void __user *user)
{
	struct pm_ioc_segment segment;
	int err;

	if (copy_from_user(&segment, user, sizeof(segment)))
		return -EFAULT;
	if (segment.name[PM_NAME_BYTES - 1] || segment.reserved[0] ||
	    segment.reserved[1] || segment.flags & ~PM_FLAG_MAY_MOVE)
		return -EINVAL;
	if (command != PM_IOC_GET && !(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (command == PM_IOC_GET)
		err = get_one(&segment);
	else
		err = change_one(command, &segment);
	if (!err && _IOC_DIR(command) & _IOC_READ &&
	    copy_to_user(user, &segment, sizeof(segment)))
		return -EFAULT;
	return err;
}

static long on_status(struct file *file, void __user *user, bool scrubs)
{
	struct pm_ioc_status status;
	int err = 0;

	if (scrubs && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (scrubs) {
		err = pmcore_change_begin();
		if (err)
			return err;
		err = scrub();
		pmcore_change_end();
	}
	if (err)
		return err;
	down_read(&pmcore.lock);
	fill_status(&status);
	up_read(&pmcore.lock);
	/* What has been seen here is no news to poll() any more. */
	file->private_data = (void *)(unsigned long)status.events;
	return copy_to_user(user, &status, sizeof(status)) ? -EFAULT : 0;
}

static long on_wish(const __u64 __user *user)
{
	u64 bytes;
	int err;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (copy_from_user(&bytes, user, sizeof(bytes)))
		return -EFAULT;
	if (pmcore.limit_bytes && bytes > pmcore.limit_bytes)
		return -ENOSPC;
	err = pmcore_change_begin();
	if (err)
		return err;
	err = pm_region_wish(&pmcore.region, bytes);
	pmcore_change_end();
	if (!err)
		pmcore_event();
	return err;
}

static long ctl_ioctl(struct file *file, unsigned int command,
		      unsigned long argument)
{
	void __user *user = (void __user *)argument;

	switch (command) {
	case PM_IOC_GET:
	case PM_IOC_CREATE:
	case PM_IOC_DESTROY:
	case PM_IOC_RESIZE:
	case PM_IOC_CHANGE:
	case PM_IOC_GIVE_UP:
		return on_segment(file, command, user);
	case PM_IOC_STATUS:
	case PM_IOC_SCRUB:
		return on_status(file, user, command == PM_IOC_SCRUB);
	case PM_IOC_WISH:
		return on_wish(user);
	default:
		return -ENOTTY;
	}
}

static __poll_t ctl_poll(struct file *file, poll_table *table)
{
	unsigned long seen = (unsigned long)file->private_data;

	poll_wait(file, &pmcore.changed, table);
	return atomic64_read(&pmcore.events) != seen ? EPOLLIN | EPOLLRDNORM :
						       0;
}

static int ctl_open(struct inode *inode, struct file *file)
{
	file->private_data =
		(void *)(unsigned long)atomic64_read(&pmcore.events);
	return 0;
}

static const struct file_operations ctl_operations = {
	.owner = THIS_MODULE,
	.open = ctl_open,
	.unlocked_ioctl = ctl_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = ctl_poll,
};

static struct miscdevice ctl = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pmctl",
	.mode = 0660,
	.groups = pmcore_region_groups,
	.fops = &ctl_operations,
};

/**
 * pmcore_ctl_init() - make /dev/pmctl
 */
int pmcore_ctl_init(void)
{
	return misc_register(&ctl);
}

/**
 * pmcore_ctl_promise_changed() - wake those who wait for the attribute flush_on_fail
 *
 * Context: may sleep.
 */
void pmcore_ctl_promise_changed(void)
{
	sysfs_notify(&ctl.this_device->kobj, "region", "flush_on_fail");
}

/**
 * pmcore_ctl_exit() - remove it
 */
void pmcore_ctl_exit(void)
{
	misc_deregister(&ctl);
}
