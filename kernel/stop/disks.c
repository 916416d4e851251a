// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 10: a write that a disk has completed is not undone.
 *
 * A disk may complete a write while the data are in a volatile cache. After a
 * crash that is harmless: a program that needs more has waited for a flush. But
 * a resumed image regards its pages as clean, and a flush that was in flight is
 * issued again after Go, to a device whose cache is empty, and succeeds. So a
 * disk with a volatile cache has one of these policies:
 *
 *   write-through  the cache is off: a write is on media before it is completed.
 *		    The default. Go switches the cache off again before it
 *		    starts the device (kernel/hooks/virtio_blk_cache.h). The
 *		    driver of an NVMe disk does so at each start of the controller
 *		    (kernel/hooks/nvme_cache.h), that of an ATA disk after each
 *		    reset (kernel/hooks/ata_cache.h).
 *   protected	    the cache keeps its content without power, according to the
 *		    loader's machine description (REM_DISK_PROTECTED).
 *   log		    the cache is on; writes that no flush has covered are kept
 *		    in memory and written again after Go (disk_log.c). Of an NVMe
 *		    disk only if its controller has no other.
 *   open	    none of these is possible, or the user switched the cache
 *		    on: invariant 10 does not hold for this disk.
 *
 * To flush after each write would not help: the flush, issued again after Go,
 * would succeed although the data are lost.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/device.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sysfs.h>
#include <linux/virtio.h>
#include <linux/workqueue.h>
#include "../hooks/hooks.h"
#include "stop.h"

enum rem_disk_policy {
	REM_DISK_CACHELESS,
	REM_DISK_WRITE_THROUGH,
	REM_DISK_IS_PROTECTED,
	REM_DISK_LOG,
	REM_DISK_OPEN,
	REM_DISK_GONE,		/* it is being removed, and is not listed */
};

static const char *const rem_disk_policies[] = {
	[REM_DISK_CACHELESS] = "no-cache",
	[REM_DISK_WRITE_THROUGH] = "write-through",
	[REM_DISK_IS_PROTECTED] = "protected",
	[REM_DISK_LOG] = "log",
	[REM_DISK_OPEN] = "open",
};

/* Attempts to switch a cache, if a Go between the two steps undoes the first. */
#define REM_DISK_SWITCHES_MAX 3

/* Protects the policies and the list of disks that have a log. */
static DEFINE_MUTEX(rem_disk_lock);
static LIST_HEAD(rem_disk_owners);
/* The newest disk that was examined. */
static u64 rem_disks_seen;

/*
 * What belongs to a disk (its parent with a driver, an NVMe namespace) may be freed
 * while the disk itself has a reference. Its driver waits for this lock before that, in
 * del_gendisk(), which marks the disk dead. Returns false if it is dead.
 */
static bool rem_disk_hold(struct gendisk *disk)
{
	mutex_lock(&disk->open_mutex);
	if (!test_bit(GD_DEAD, &disk->state))
		return true;
	mutex_unlock(&disk->open_mutex);
	return false;
}

static void rem_disk_release(struct gendisk *disk)
{
	mutex_unlock(&disk->open_mutex);
}

/* The virtio device of a disk that is held or whose parent is locked, or NULL. */
static struct virtio_device *rem_disk_virtio(struct gendisk *disk)
{
	struct device *parent = disk_to_dev(disk)->parent;

	if (!parent || !parent->driver ||
	    strcmp(parent->driver->name, "virtio_blk"))
		return NULL;
	return dev_to_virtio(parent);
}

/* By its own number, or, without one, by where it is. Context: device of the driver locked. */
static int rem_disk_name(struct gendisk *disk, char *text)
{
	const size_t bytes = REM_DISK_IDENTITY_BYTES;
	static const enum blk_unique_id types[] = { BLK_UID_NAA, BLK_UID_EUI64,
						    BLK_UID_T10 };
	struct virtio_device *vdev = rem_disk_virtio(disk);
	char serial[32] = "", *path;
	size_t length, from;
	unsigned int i;
	u8 id[16];
	int err;

	for (i = 0; disk->fops->get_unique_id && i < ARRAY_SIZE(types); i++) {
		err = disk->fops->get_unique_id(disk, id, types[i]);
		if (err > 0 && err <= (int)sizeof(id)) {
			snprintf(text, bytes, "id %*phN", err, id);
			return 0;
		}
	}
	err = vdev ? rem_virtblk_serial(vdev, serial, sizeof(serial)) : 0;
	if (err)
		return err;
	if (serial[0]) {
		snprintf(text, bytes, "virtio %s", serial);
		return 0;
	}
	path = kobject_get_path(&disk_to_dev(disk)->kobj, GFP_NOIO);
	if (!path)
		return -ENOMEM;
	length = strlen(path);
	from = length < bytes ? 0 : length - bytes + 1;
	strscpy(text, path + from, bytes);
	kfree(path);
	return 0;
}

/**
 * rem_disk_identity - what tells a disk from all others, also in a later boot
 * @disk: any disk
 * @text: gets it, REM_DISK_IDENTITY_BYTES with its end
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int rem_disk_identity(struct gendisk *disk, char *text)
{
	struct device *parent;
	int err = -ENODEV;

	if (!rem_disk_hold(disk))
		return -ENODEV;
	parent = get_device(disk_to_dev(disk)->parent);
	rem_disk_release(disk);
	if (parent)
		device_lock(parent);
	if (!test_bit(GD_DEAD, &disk->state))
		err = rem_disk_name(disk, text);
	if (parent) {
		device_unlock(parent);
		put_device(parent);
	}
	return err;
}

static bool rem_disk_switchable(struct gendisk *disk)
{
	struct virtio_device *vdev = rem_disk_virtio(disk);

	return vdev && rem_virtblk_cache_can(vdev);
}

/* Whether its driver keeps the cache off. */
static bool rem_disk_kept_off(struct gendisk *disk)
{
	return rem_nvme_cache_is_off(disk) || rem_ata_cache_is_off(disk);
}

/* Whether the machine description calls this disk's cache protected. */
static bool rem_disk_declared(struct gendisk *disk)
{
	const struct rem_desc_entry *entry;
	struct virtio_device *vdev = rem_disk_virtio(disk);
	struct device *parent = vdev ? vdev->dev.parent : NULL;
	unsigned int i, count;

	/* A table of dm-mod.create= is made before the block is mapped. */
	if (!rem.block || !parent || !dev_is_pci(parent))
		return false;
	entry = rem_record_table(&count);
	for (i = 0; i < count; i++)
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

static enum rem_disk_policy rem_disk_policy_held(struct gendisk *disk)
{
	if (!(disk->queue->limits.features & BLK_FEAT_WRITE_CACHE))
		return rem_disk_switchable(disk) || rem_disk_kept_off(disk) ?
		       REM_DISK_WRITE_THROUGH : REM_DISK_CACHELESS;
	return rem_disk_declared(disk) ? REM_DISK_IS_PROTECTED : REM_DISK_OPEN;
}

static enum rem_disk_policy rem_disk_policy(struct gendisk *disk)
{
	enum rem_disk_policy policy;

	if (rem_disk_logged(disk))
		return REM_DISK_LOG;
	if (!rem_disk_hold(disk))
		return REM_DISK_GONE;
	policy = rem_disk_policy_held(disk);
	rem_disk_release(disk);
	return policy;
}

/* A stacked device has no cache of its own. */
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
 * A Go between the two steps (device, block layer) sets the device back to the
 * old state; then both are done again. Context: device of the driver locked.
 */
static int rem_disk_switch_locked(struct gendisk *disk, bool on)
{
	unsigned int tries;
	int err;

	if (rem_nvme_cache_can(disk))
		return rem_nvme_cache_set(disk, on);
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

/*
 * The lock keeps the driver from being unbound, and waits for the end of its probe.
 * Returns 0 or a negative errno; -EOPNOTSUPP: the cache cannot be switched.
 */
static int rem_disk_switch(struct gendisk *disk, bool on)
{
	struct device *parent;
	int err;

	if (!rem_disk_hold(disk))
		return -ENODEV;
	parent = get_device(disk_to_dev(disk)->parent);
	rem_disk_release(disk);
	if (!parent)
		return -EOPNOTSUPP;
	device_lock(parent);
	err = test_bit(GD_DEAD, &disk->state) ?
		      -ENODEV : rem_disk_switch_locked(disk, on);
	device_unlock(parent);
	put_device(parent);
	return err;
}

/* Warns of a disk once, although each new disk has all of them examined. */
static void rem_disk_warn(struct gendisk *disk, int err)
{
	if (err != -ENODEV && disk->diskseq > rem_disks_seen)
		pr_warn("remanence: %s has a volatile write cache that cannot be switched off: %pe\n",
			disk->disk_name, ERR_PTR(err));
}

/**
 * rem_disks_prepare - switch volatile write caches off
 *
 * A warning names each disk for which that is impossible.
 *
 * Context: process; before the root file system is mounted, and when a disk has
 * appeared.
 */
void rem_disks_prepare(void)
{
	struct class_dev_iter iter;
	struct gendisk *disk;
	u64 newest;
	int err;

	mutex_lock(&rem_disk_lock);
	newest = rem_disks_seen;
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while ((disk = rem_disk_next(&iter))) {
		newest = max(newest, disk->diskseq);
		if (rem_disk_policy(disk) != REM_DISK_OPEN)
			continue;
		err = rem_disk_switch(disk, false);
		if (err)
			rem_disk_warn(disk, err);
	}
	class_dev_iter_exit(&iter);
	rem_disks_seen = newest;
	mutex_unlock(&rem_disk_lock);
}

static void rem_disks_changed(struct work_struct *unused)
{
	rem_disks_prepare();
}

static DECLARE_WORK(rem_disks_work, rem_disks_changed);

/* In the probe of the disk, whose end the work waits for. */
static int rem_disk_added(struct device *dev)
{
	schedule_work(&rem_disks_work);
	return 0;
}

static struct class_interface rem_disks_interface = {
	.class = &block_class,
	.add_dev = rem_disk_added,
};

/**
 * rem_disks_watch - prepare disks that appear later, too
 *
 * By a driver that is loaded or bound again, by a rescan or by hot-plug. Until its
 * cache is off, such a disk is listed as `open`.
 *
 * Context: process, once.
 * Return: 0 or a negative errno.
 */
int __init rem_disks_watch(void)
{
	return class_interface_register(&rem_disks_interface);
}

/**
 * rem_disks_show - print a line for each disk: its name and its policy
 * @buf: a page of sysfs
 *
 * Context: process.
 * Return: bytes written.
 */
ssize_t rem_disks_show(char *buf)
{
	struct class_dev_iter iter;
	enum rem_disk_policy policy;
	struct gendisk *disk;
	int at = 0;

	mutex_lock(&rem_disk_lock);
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while ((disk = rem_disk_next(&iter))) {
		policy = rem_disk_policy(disk);
		/* Nor a loop device without a file. */
		if (policy != REM_DISK_GONE && get_capacity(disk))
			at += sysfs_emit_at(buf, at, "%s %s\n",
					    disk->disk_name,
					    rem_disk_policies[policy]);
	}
	class_dev_iter_exit(&iter);
	mutex_unlock(&rem_disk_lock);
	return at;
}

/*
 * Returns whether the disk's cache has to be switched, 0 or 1, and then *@ret_on is how;
 * or a negative errno as rem_disks_store(). Context: the disk is held.
 */
static int rem_disk_choose_held(struct gendisk *disk, const char *policy,
				bool *ret_on)
{
	bool protect = !strcmp(policy, "protected");
	bool through = !strcmp(policy, "write-through");

	/* Such a disk cannot be declared protected. */
	if (rem_disk_kept_off(disk)) {
		if (protect)
			return -EPERM;
		return through ? 0 : -EINVAL;
	}
	if (!rem_disk_switchable(disk))
		return -EOPNOTSUPP;
	if (!protect && !through)
		return -EINVAL;
	if (protect && !rem_disk_declared(disk))
		return -EPERM;
	*ret_on = protect;
	return 1;
}

static int rem_disk_choose(struct gendisk *disk, const char *policy)
{
	bool on;
	int ret;

	if (rem_disk_logged(disk))
		return strcmp(policy, "log") ? -EBUSY : 0;
	if (!rem_disk_hold(disk))
		return -ENODEV;
	ret = rem_disk_choose_held(disk, policy, &on);
	rem_disk_release(disk);
	return ret > 0 ? rem_disk_switch(disk, on) : ret;
}

/**
 * rem_disks_store - choose the policy of a disk
 * @buf: "NAME write-through" or "NAME protected"
 *
 * Context: process.
 * Return: 0, -ENODEV, -EINVAL, -EPERM if the disk is not declared protected,
 * -EOPNOTSUPP if its cache cannot be switched, or -EBUSY if it has a log,
 * which ends with its table.
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

/* Returns 0 if its cache is on, or a negative errno. */
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
	case REM_DISK_GONE:
		*why = "the disk has been removed";
		return -ENODEV;
	case REM_DISK_IS_PROTECTED:
	case REM_DISK_OPEN:
		break;
	}
	return 0;
}

/**
 * rem_disk_log_begin - register a log and switch its disk's cache on
 * @owner: of the log; it has claimed the disk exclusively
 * @why: set to a message on errors
 *
 * Context: process.
 * Return: 0, -EBUSY, -EOPNOTSUPP or -ENODEV.
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
 * rem_disk_log_end - unregister a log and switch its disk's cache off
 * @owner: of the log; everything that was written is on media
 *
 * A warning if the cache stays on.
 *
 * Context: process.
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
			pr_warn("remanence: %s has a volatile write cache and no log any more: %pe\n",
				disk->disk_name, ERR_PTR(err));
	}
	mutex_unlock(&rem_disk_lock);
}
