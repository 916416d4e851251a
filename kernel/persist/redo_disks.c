// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings of an earlier kernel are written to their disks: before anybody else uses them,
 * as soon as they are there. The disks that are there at boot are looked at before a
 * table of dm-mod.create= is made, and before the root file system is mounted.
 *
 * A disk whose ring cannot be written is claimed, so that nobody can mount it: what it
 * has is older than what it has promised. An administrator decides
 * (/sys/kernel/remanence/persist/redo).
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "../machine.h"
#include "persist.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

static bool force;
module_param_named(persist_redo_force, force, bool, 0444);
MODULE_PARM_DESC(persist_redo_force, "Write rings to their disks although a part of them is damaged");

/* Pages of one request. */
#define PAGES 64
#define TRIES 500
#define TRY_MS 20

/* Of the work, and of an administrator's decision. */
static DEFINE_MUTEX(redo_lock);
/* Disks that nobody may use, by entry. */
static struct file *claims[REM_REDO_DISKS];
static bool watching;

/* What is written together. */
struct batch {
	struct bio_vec vecs[PAGES];
	struct page *pages[PAGES];
	struct bio bio;
	unsigned int count;
};

static void batch_free(struct batch *batch)
{
	unsigned int i;

	if (batch && batch->count)
		bio_uninit(&batch->bio);
	for (i = 0; batch && i < PAGES && batch->pages[i]; i++)
		__free_page(batch->pages[i]);
	kfree(batch);
}

static struct batch *batch_make(void)
{
	struct batch *batch = kzalloc(sizeof(*batch), GFP_KERNEL);
	unsigned int i;

	for (i = 0; batch && i < PAGES; i++) {
		batch->pages[i] = alloc_page(GFP_KERNEL);
		if (!batch->pages[i]) {
			batch_free(batch);
			return NULL;
		}
	}
	return batch;
}

static int batch_write(struct batch *batch)
{
	int err;

	if (!batch->count)
		return 0;
	err = submit_bio_wait(&batch->bio);
	bio_uninit(&batch->bio);
	batch->count = 0;
	return err;
}

/* Adds a slot, after what is not adjacent to it is written: they may overlap. */
static int batch_add(struct batch *batch, struct block_device *bdev,
		     const struct rem_redo_slot *slot, const void *data)
{
	struct page *page;
	int err = 0;

	if (batch->count == PAGES ||
	    (batch->count && bio_end_sector(&batch->bio) != slot->sector))
		err = batch_write(batch);
	if (err)
		return err;
	if (!batch->count) {
		bio_init(&batch->bio, bdev, batch->vecs, PAGES,
			 REQ_OP_WRITE | REQ_SYNC);
		batch->bio.bi_iter.bi_sector = slot->sector;
	}
	page = batch->pages[batch->count++];
	memcpy(page_address(page), data, slot->bytes);
	return bio_add_page(&batch->bio, page, slot->bytes, 0) == slot->bytes ?
		       0 : -EIO;
}

/* Returns how many slots are damaged. */
static u64 count_damage(const struct rem_redo_seen *ring, const char *identity)
{
	struct rem_redo_slot slot;
	const char *wrong;
	u64 at, damaged = 0;
	const void *data;

	for (at = ring->head; at < ring->covered; at++) {
		data = rem_redo_slot(ring, at, &slot);
		wrong = rem_redo_slot_wrong(&slot, ring, at);
		if (!wrong && rem_redo_data_wrong(&slot, data))
			wrong = "its data have changed";
		if (wrong && !damaged++)
			pr_err("remanence: redo: %s: write %llu is damaged: %s\n",
			       identity, at, wrong);
		cond_resched();
	}
	return damaged;
}

static int write_slots(struct block_device *bdev, struct batch *batch,
		       const struct rem_redo_seen *ring)
{
	struct rem_redo_slot slot;
	const void *data;
	int err = 0;
	u64 at;

	for (at = ring->head; !err && at < ring->covered; at++) {
		data = rem_redo_slot(ring, at, &slot);
		if (slot.dropped == REM_REDO_DROPPED ||
		    rem_redo_slot_wrong(&slot, ring, at) ||
		    rem_redo_data_wrong(&slot, data))
			continue;
		err = batch_add(batch, bdev, &slot, data);
		cond_resched();
	}
	return err ?: batch_write(batch);
}

/*
 * Writes a ring to its disk, or nothing of it. Until its entry is gone, the same is done
 * again after a crash. Returns 0 or a negative errno.
 */
static int write_ring(struct block_device *bdev, unsigned int n,
		      enum rem_redo_state state,
		      const struct rem_redo_seen *ring, const char *identity)
{
	struct batch *batch;
	u64 damaged;
	int err;

	if (state == REM_REDO_DAMAGED) {
		pr_err("remanence: redo: %s: the ring is damaged\n", identity);
		return -EUCLEAN;
	}
	if (bdev_nr_sectors(bdev) != ring->sectors) {
		pr_err("remanence: redo: %s: the disk has another size\n",
		       identity);
		return -EUCLEAN;
	}
	damaged = count_damage(ring, identity);
	if (damaged && !force)
		return -EUCLEAN;
	batch = batch_make();
	if (!batch)
		return -ENOMEM;
	err = write_slots(bdev, batch, ring) ?: blkdev_issue_flush(bdev);
	batch_free(batch);
	if (err)
		return err;
	rem_redo_forget(n);
	pr_info("remanence: redo: %s: %llu writes were written again, %llu were damaged\n",
		identity, ring->covered - ring->head - damaged, damaged);
	return 0;
}

/* Returns false if the disk is not there yet. */
static bool redo_disk(struct gendisk *disk, unsigned int n,
		      enum rem_redo_state state,
		      const struct rem_redo_seen *ring, const char *identity)
{
	static int holder;
	struct file *file = claims[n];
	int err;

	claims[n] = NULL;
	if (!file)
		file = bdev_file_open_by_dev(disk_devt(disk),
					     BLK_OPEN_READ | BLK_OPEN_WRITE,
					     &holder, NULL);
	if (file == ERR_PTR(-ENXIO))
		return false;
	if (IS_ERR(file)) {
		pr_err("remanence: redo: %s: %s cannot be claimed: %pe\n",
		       identity, disk->disk_name, file);
		/* What others write now is not to be undone by a later boot. */
		if (PTR_ERR(file) == -EBUSY)
			rem_redo_forget(n);
		return true;
	}
	err = write_ring(file_bdev(file), n, state, ring, identity);
	if (!err) {
		bdev_fput(file);
		return true;
	}
	claims[n] = file;
	pr_err("remanence: redo: %s: acknowledged writes are not on %s, which cannot be used: %pe\n",
	       identity, disk->disk_name, ERR_PTR(err));
	return true;
}

/* Returns false if the disk is not there yet. */
static bool redo_rings_of(struct gendisk *disk)
{
	char identity[REM_REDO_IDENTITY_BYTES], wanted[REM_REDO_IDENTITY_BYTES];
	enum rem_redo_state state;
	struct rem_redo_seen ring;
	bool ready = true;
	unsigned int n;

	if (rem_disk_identity(disk, identity))
		return true;
	for (n = 0; n < REM_REDO_DISKS; n++) {
		state = rem_redo_look(n, &ring, wanted);
		if (state >= REM_REDO_WAITS && !strcmp(identity, wanted))
			ready &= redo_disk(disk, n, state, &ring, identity);
	}
	return ready;
}

/* Returns false if a disk is not there yet. */
static bool redo_disks(void)
{
	struct class_dev_iter iter;
	struct device *dev;
	bool ready = true;

	mutex_lock(&redo_lock);
	class_dev_iter_init(&iter, &block_class, NULL, &disk_type);
	while (rem_redo_waits() && (dev = class_dev_iter_next(&iter)))
		ready &= redo_rings_of(dev_to_disk(dev));
	class_dev_iter_exit(&iter);
	mutex_unlock(&redo_lock);
	return ready;
}

static void redo_work(struct work_struct *unused)
{
	unsigned int tries;

	/* The last steps of a disk's probe take no longer. */
	for (tries = 0; tries < TRIES && !redo_disks(); tries++)
		msleep(TRY_MS);
}

static DECLARE_WORK(work, redo_work);

/** rem_redo_retry - a disk has been given back that lacks what its ring has */
void rem_redo_retry(void)
{
	schedule_work(&work);
}

/** rem_redo_wait - wait for what has begun because a disk has appeared */
void rem_redo_wait(void)
{
	flush_work(&work);
}

/* In the probe of the disk, which cannot be opened yet. */
static int disk_added(struct device *dev)
{
	if (watching)
		schedule_work(&work);
	return 0;
}

static struct class_interface interface = {
	.class = &block_class,
	.add_dev = disk_added,
};

static const char *const state_names[] = {
	[REM_REDO_NONE] = "none",
	[REM_REDO_EMPTY] = "used",
	[REM_REDO_WAITS] = "waits",
	[REM_REDO_DAMAGED] = "damaged",
};

static ssize_t redo_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	char identity[REM_REDO_IDENTITY_BYTES];
	enum rem_redo_state state;
	struct rem_redo_seen ring;
	unsigned int n;
	int at = 0;

	for (n = 0; n < REM_REDO_DISKS; n++) {
		state = rem_redo_look(n, &ring, identity);
		if (state != REM_REDO_NONE)
			at += sysfs_emit_at(buf, at, "%u %s %u %s\n", n,
					    state_names[state], ring.slots,
					    identity);
	}
	return at;
}

/* "N give-up": the disk of that line may be used without what it lacks. */
static ssize_t redo_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	unsigned int n;
	char word[8];

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (sscanf(buf, "%u %7s", &n, word) != 2 || n >= REM_REDO_DISKS ||
	    strcmp(word, "give-up"))
		return -EINVAL;
	mutex_lock(&redo_lock);
	rem_redo_forget(n);
	if (claims[n])
		bdev_fput(claims[n]);
	claims[n] = NULL;
	mutex_unlock(&redo_lock);
	return count;
}

struct kobj_attribute rem_redo_attr = __ATTR_RW_MODE(redo, 0600);

/*
 * Before dm-mod.create= is parsed, which is of the same level and linked later: its
 * tables would claim the disks.
 */
static int __init redo_init(void)
{
	int err;

	if (rem_registry_open() || !rem_redo_waits())
		return 0;
	wait_for_device_probe();
	redo_disks();
	if (!rem_redo_waits())
		return 0;
	watching = true;
	err = class_interface_register(&interface);
	rem_redo_wait();
	return err;
}
late_initcall(redo_init);
