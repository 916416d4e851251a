// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 10: what a disk has said is written stays written.
 *
 * A disk may say so while the data are in a cache that dies with the power. An
 * ordinary crash forgives that, because whoever needs more asks for a flush;
 * but an image that is resumed believes its pages clean, and a flush it was
 * waiting for is issued again after Go to a device whose cache is empty, and
 * succeeds. So a disk with such a cache is kept in one of these ways:
 *
 *   write-through  the cache is off: every write is on media before it is said
 *		    to be. The default. Go switches it off again, before the
 *		    device is started (kernel/hooks/virtio_blk_cache.h; an NVMe
 *		    controller's driver at each start, kernel/hooks/nvme_cache.h).
 *   protected	    the cache survives, as the loader's machine description says
 *		    (REM_DISK_PROTECTED); nothing is done.
 *   log		    the cache is on, and what no flush has covered is kept in
 *		    memory and written again after Go (disk_log.c).
 *   open	    none of these is possible, or somebody switched the cache on:
 *		    invariant 10 does not hold for this disk, and that is said.
 *
 * A flush after each write would not do: the flush, issued again after Go,
 * would vouch for data that are gone.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/device.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sysfs.h>
#include <linux/virtio.h>
#include "../resume/resume.h"
#include "stop.h"

enum rem_disk_policy {
	REM_DISK_CACHELESS,
	REM_DISK_WRITE_THROUGH,
	REM_DISK_IS_PROTECTED,
	REM_DISK_LOG,
	REM_DISK_OPEN,
};

static const char *const rem_disk_policies[] = {
	[REM_DISK_CACHELESS] = "no-cache",
	[REM_DISK_WRITE_THROUGH] = "write-through",
	[REM_DISK_IS_PROTECTED] = "protected",
	[REM_DISK_LOG] = "log",
	[REM_DISK_OPEN] = "open",
};

/* How often a switch is tried again that Go has undone half way. */
#define REM_DISK_SWITCHES_MAX 3

/* Of all choices, and of the list of disks that have a log. */
static DEFINE_MUTEX(rem_disk_lock);
static LIST_HEAD(rem_disk_owners);

/* The virtio device of a disk, or NULL. */
static struct virtio_device *rem_disk_virtio(struct gendisk *disk)
{
	struct device *parent = disk_to_dev(disk)->parent;

	if (!parent || !parent->driver ||
	    strcmp(parent->driver->name, "virtio_blk"))
		return NULL;
	return dev_to_virtio(parent);
}

static bool rem_disk_switchable(struct gendisk *disk)
{
	struct virtio_device *vdev = rem_disk_virtio(disk);

	return vdev && rem_virtblk_cache_can(vdev);
}

/* Whether the loader was told that this disk's cache survives. */
static bool rem_disk_declared(struct gendisk *disk)
{
	const struct rem_desc *desc = (void *)rem.block + REM_DESC_OFFSET;
	const struct rem_desc_entry *entry = (const void *)(desc + 1);
	struct virtio_device *vdev = rem_disk_virtio(disk);
	struct device *parent = vdev ? vdev->dev.parent : NULL;
	u32 i;

	/* A table on the command line comes before the block is open. */
	if (!rem.block || !parent || !dev_is_pci(parent))
		return false;
	for (i = 0; i < min_t(u32, desc->count, REM_DESC_ENTRIES_MAX); i++)
		if (entry[i].type == REM_DESC_DISK &&
		    entry[i].key == pci_dev_id(to_pci_dev(parent)))
			return entry[i].value[4] & REM_DISK_PROTECTED;
	return false;
}

static bool rem_disk_logged(struct gendisk *disk)
{
	struct rem_disk_owner *owner;

	lockdep_assert_held(&rem_disk_lock);
	list_for_each_entry(owner, &rem_disk_owners, list)
		if (owner->disk == disk)
			return true;
	return false;
}

static enum rem_disk_policy rem_disk_policy(struct gendisk *disk)
{
	if (rem_disk_logged(disk))
		return REM_DISK_LOG;
	if (!(disk->queue->limits.features & BLK_FEAT_WRITE_CACHE))
		return rem_disk_switchable(disk) || rem_nvme_cache_is_off(disk) ?
		       REM_DISK_WRITE_THROUGH : REM_DISK_CACHELESS;
	return rem_disk_declared(disk) ? REM_DISK_IS_PROTECTED : REM_DISK_OPEN;
}

/* One that lies above others has no cache of its own. */
static bool rem_disk_is_stacked(struct gendisk *disk)
{
#ifdef CONFIG_BLOCK_HOLDER_DEPRECATED
	return !list_empty_careful(&disk->slave_bdevs);
#else
	return false;
#endif
}

static struct gendisk *rem_disk_next(struct class_dev_iter *iter)
{
	struct device *dev;

	while ((dev = class_dev_iter_next(iter)))
		if (!rem_disk_is_stacked(dev_to_disk(dev)))
			return dev_to_disk(dev);
	return NULL;
}

/*
 * A Go between the two steps of a switch tells the device what the block layer
 * believed before it. Returns 0 where the block layer knows of the new state,
 * -EOPNOTSUPP where the cache cannot be switched.
 */
static int rem_disk_switch(struct gendisk *disk, bool on)
{
	unsigned int tries;
	int err;

	if (!rem_disk_switchable(disk))
		return -EOPNOTSUPP;
	for (tries = 0; tries < REM_DISK_SWITCHES_MAX; tries++) {
		err = rem_virtblk_cache_set(rem_disk_virtio(disk), on);
		if (err)
			return err;
		if (on == !!(disk->queue->limits.features &
			     BLK_FEAT_WRITE_CACHE))
			return 0;
	}
	return -EIO;
}

/**
 * rem_disks_prepare - keep what is written, before anything is
 *
 * Context: process, once, before the root file system is mounted.
 * Return: nothing; a disk that cannot be kept is said.
 */
void __init rem_disks_prepare(void)
{
	struct class_dev_iter iter;
	struct gendisk *disk;
	int err;

	mutex_lock(&rem_disk_lock);
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while ((disk = rem_disk_next(&iter))) {
		if (rem_disk_policy(disk) != REM_DISK_OPEN)
			continue;
		err = rem_disk_switch(disk, false);
		if (err)
			pr_warn("remanence: %s has a write cache that a power failure empties and that cannot be switched off: %pe\n",
				disk->disk_name, ERR_PTR(err));
	}
	class_dev_iter_exit(&iter);
	mutex_unlock(&rem_disk_lock);
}

/**
 * rem_disks_show - a line for each disk: its name and how it is kept
 * @buf: a page of sysfs
 *
 * Context: process. Return: bytes written.
 */
ssize_t rem_disks_show(char *buf)
{
	struct class_dev_iter iter;
	struct gendisk *disk;
	int at = 0;

	mutex_lock(&rem_disk_lock);
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while ((disk = rem_disk_next(&iter)))
		if (get_capacity(disk)) /* not a loop device without a file */
			at += sysfs_emit_at(buf, at, "%s %s\n",
					    disk->disk_name,
					    rem_disk_policies[rem_disk_policy(disk)]);
	class_dev_iter_exit(&iter);
	mutex_unlock(&rem_disk_lock);
	return at;
}

/*
 * Returns 0, -EPERM where nobody declared it, -EBUSY where it has a log, or a
 * negative errno.
 */
static int rem_disk_choose(struct gendisk *disk, const char *policy)
{
	if (rem_disk_logged(disk))
		return strcmp(policy, "log") ? -EBUSY : 0;
	/* Its driver keeps it off; nobody can declare it protected yet. */
	if (rem_nvme_cache_is_off(disk) && !strcmp(policy, "protected"))
		return -EPERM;
	if (rem_nvme_cache_is_off(disk))
		return strcmp(policy, "write-through") ? -EINVAL : 0;
	if (!rem_disk_switchable(disk))
		return -EOPNOTSUPP;
	if (!strcmp(policy, "write-through"))
		return rem_disk_switch(disk, false);
	if (strcmp(policy, "protected"))
		return -EINVAL;
	if (!rem_disk_declared(disk))
		return -EPERM;
	return rem_disk_switch(disk, true);
}

/**
 * rem_disks_store - choose how a disk is kept
 * @buf: "NAME write-through" or "NAME protected"
 *
 * Context: process. Return: 0, -ENODEV, -EINVAL, -EPERM where it is not
 * declared protected, -EOPNOTSUPP where its cache cannot be switched, or -EBUSY
 * where it has a log: that ends with its table.
 */
int rem_disks_store(const char *buf)
{
	char name[DISK_NAME_LEN], policy[16];
	struct class_dev_iter iter;
	struct gendisk *disk;
	int err = -ENODEV;

	if (sscanf(buf, "%31s %15s", name, policy) != 2)
		return -EINVAL;
	mutex_lock(&rem_disk_lock);
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while ((disk = rem_disk_next(&iter)))
		if (!strcmp(disk->disk_name, name)) {
			err = rem_disk_choose(disk, policy);
			break;
		}
	class_dev_iter_exit(&iter);
	mutex_unlock(&rem_disk_lock);
	return err;
}

/* Returns 0 where its cache is on, or a negative errno. */
static int rem_disk_log_allow(struct gendisk *disk, char **why)
{
	switch (rem_disk_policy(disk)) {
	case REM_DISK_LOG:
		*why = "the disk has a log already";
		return -EBUSY;
	case REM_DISK_CACHELESS:
		*why = "the disk has no write cache";
		return -EOPNOTSUPP;
	case REM_DISK_WRITE_THROUGH:
		*why = "the disk's write cache cannot be switched on";
		return rem_disk_switch(disk, true);
	case REM_DISK_IS_PROTECTED:
	case REM_DISK_OPEN:
		break;
	}
	return 0;
}

/**
 * rem_disk_log_begin - a disk is kept by a log from now on, its cache on
 * @owner: the log's, with its disk, which it has for itself
 * @why: set to what is wrong, where something is
 *
 * Context: process. Return: 0, -EBUSY or -EOPNOTSUPP.
 */
int rem_disk_log_begin(struct rem_disk_owner *owner, char **why)
{
	int err;

	mutex_lock(&rem_disk_lock);
	err = rem_disk_log_allow(owner->disk, why);
	if (!err)
		list_add_tail(&owner->list, &rem_disk_owners);
	mutex_unlock(&rem_disk_lock);
	return err;
}

/**
 * rem_disk_log_end - a disk has no log any more
 * @owner: the log's; all that was written is on media
 *
 * Context: process. Return: nothing; a disk that is not kept is said.
 */
void rem_disk_log_end(struct rem_disk_owner *owner)
{
	struct gendisk *disk = owner->disk;
	int err;

	mutex_lock(&rem_disk_lock);
	list_del(&owner->list);
	if (rem_disk_policy(disk) == REM_DISK_OPEN) {
		err = rem_disk_switch(disk, false);
		if (err)
			pr_warn("remanence: %s has a write cache and no log any more: %pe\n",
				disk->disk_name, ERR_PTR(err));
	}
	mutex_unlock(&rem_disk_lock);
}
