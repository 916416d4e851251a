// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device mapper target `remanence-log`: its table, its status, and the list
 * of logs. How it works is described in disk_log.c.
 *
 *	0 SECTORS remanence-log DISK MIB
 *
 * claims a whole disk, switches its write cache on, and keeps up to MIB MiB of
 * data that the cache may hold. That much memory is allocated at once; or, with
 * remanence.persist_redo=, the data are in the redo area, and flushes may end there
 * (disk_log_redo.c).
 */
#include <linux/blkdev.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include "disk_log.h"

static DEFINE_SPINLOCK(rem_logs_lock);
static LIST_HEAD(rem_logs);
/* Above it: the logs stay, and whether their flushes end early, which may wait. */
static DEFINE_MUTEX(rem_logs_change);
static bool rem_logs_are_early;

/**
 * rem_logs_go - start the replays after Go
 *
 * The first bio would start its disk's replay, too, but would have to wait.
 *
 * Context: process.
 */
void rem_logs_go(void)
{
	struct rem_log *log;

	spin_lock(&rem_logs_lock);
	list_for_each_entry(log, &rem_logs, list)
		queue_work(log->queue, &log->work);
	spin_unlock(&rem_logs_lock);
}

static dev_t rem_log_dev(const struct rem_log *log)
{
	return disk_devt(dm_disk(dm_table_get_md(log->ti->table)));
}

/* Context: rem_logs_change is held. */
static void rem_log_choose(struct rem_log *log)
{
	bool early = log->redo && rem_logs_are_early &&
		     !rem_persist_excludes(rem_log_dev(log));
	bool ceases;

	spin_lock_irq(&log->lock);
	ceases = log->early && !early;
	log->early = early;
	spin_unlock_irq(&log->lock);
	if (ceases)
		rem_log_drain(log);
}

/**
 * rem_logs_early - whether flushes may end in memory
 * @on: they may, but on devices that are excluded
 *
 * When it returns, all that has ended so where they may not is on media.
 *
 * Context: process.
 */
void rem_logs_early(bool on)
{
	struct rem_log *log;

	mutex_lock(&rem_logs_change);
	rem_logs_are_early = on;
	/* The list changes only under the mutex. */
	list_for_each_entry(log, &rem_logs, list)
		rem_log_choose(log);
	mutex_unlock(&rem_logs_change);
}

/*
 * Brings everything that was written to media. Context: no bio is sent any more.
 * Returns 0 or a negative errno.
 */
static int rem_log_settle(struct rem_log *log)
{
	u32 life;
	int err;

	do {
		life = READ_ONCE(rem.resumes);
		err = rem_log_secure(log, life);
	} while (life != READ_ONCE(rem.resumes));
	return err;
}

static int rem_log_parse(struct dm_target *ti, unsigned int argc, char **argv,
			 u32 *mib)
{
	if (argc != 2) {
		ti->error = "want a disk and the size of its log in MiB";
		return -EINVAL;
	}
	if (kstrtou32(argv[1], 10, mib) || !*mib) {
		ti->error = "the size of the log is a number of MiB, at least 1";
		return -EINVAL;
	}
	if (*mib > totalram_pages() >> (21 - PAGE_SHIFT)) {
		ti->error = "the log is larger than half of main memory";
		return -EINVAL;
	}
	return 0;
}

/* Claims the disk and switches its cache on. */
static int rem_log_disk_take(struct rem_log *log, const char *path)
{
	struct dm_target *ti = log->ti;
	int err;

	err = dm_get_device(ti, path, dm_table_get_mode(ti->table), &log->dev);
	if (err) {
		ti->error = "no such disk, or it is in use";
		return err;
	}
	err = -EINVAL;
	if (bdev_is_partition(log->dev->bdev)) {
		ti->error = "this is a partition, not a whole disk";
	} else {
		log->owner.disk = log->dev->bdev->bd_disk;
		err = rem_disk_log_begin(&log->owner, &ti->error);
	}
	if (err)
		dm_put_device(ti, log->dev);
	return err;
}

static void rem_log_disk_give(struct rem_log *log)
{
	rem_disk_log_end(&log->owner);
	dm_put_device(log->ti, log->dev);
}

/* In the redo area, if there is one with room. Everything written is on media. */
static int rem_log_pages_make(struct rem_log *log)
{
	struct block_device *bdev = log->dev->bdev;
	char identity[REM_DISK_IDENTITY_BYTES];
	int err;

	err = rem_disk_identity(bdev->bd_disk, identity);
	if (!err)
		log->redo = rem_redo_begin(identity, bdev_nr_sectors(bdev),
					   log->mib << (20 - PAGE_SHIFT),
					   &log->slots);
	err = rem_log_ring_make(log);
	if (err) {
		log->ti->error = "no memory for the log";
		if (log->redo)
			rem_redo_end(log->redo, true);
	}
	return err;
}

/* Data that are in the cache already are not in the log: flush them. */
static int rem_log_begin(struct rem_log *log, const char *path)
{
	int err;

	/* Until a disk that has just appeared has what its ring has. */
	rem_redo_wait();
	err = rem_log_disk_take(log, path);
	if (err)
		return err;
	log->life = READ_ONCE(rem.resumes);
	err = rem_log_settle(log);
	if (err)
		log->ti->error = "the disk cannot flush its cache";
	else
		err = rem_log_pages_make(log);
	if (err)
		rem_log_disk_give(log);
	return err;
}

static int rem_log_make(struct rem_log *log, const char *path)
{
	int err;

	spin_lock_init(&log->lock);
	INIT_LIST_HEAD(&log->pending);
	INIT_LIST_HEAD(&log->copying);
	INIT_LIST_HEAD(&log->behind);
	INIT_LIST_HEAD(&log->idle);
	bio_list_init(&log->held);
	bio_list_init(&log->waiting);
	init_waitqueue_head(&log->drained);
	INIT_WORK(&log->work, rem_log_work);
	log->ti->error = "no memory for the log";
	log->queue = alloc_workqueue("rem_log", WQ_MEM_RECLAIM, 1);
	if (!log->queue)
		return -ENOMEM;
	err = rem_log_begin(log, path);
	if (err)
		destroy_workqueue(log->queue);
	return err;
}

static int rem_log_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct rem_log *log;
	u32 mib;
	int err;

	err = rem_log_parse(ti, argc, argv, &mib);
	if (err)
		return err;
	log = kzalloc(sizeof(*log), GFP_KERNEL);
	if (!log) {
		ti->error = "no memory for the log";
		return -ENOMEM;
	}
	log->ti = ti;
	log->mib = mib;
	err = rem_log_make(log, argv[0]);
	if (err) {
		kfree(log);
		return err;
	}
	mutex_lock(&rem_logs_change);
	rem_log_choose(log);
	spin_lock(&rem_logs_lock);
	list_add_tail(&log->list, &rem_logs);
	spin_unlock(&rem_logs_lock);
	mutex_unlock(&rem_logs_change);

	ti->private = log;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->takes_flush_with_data = true;
	ti->per_io_data_size = sizeof(struct rem_log_io);
	return dm_set_target_max_io_len(ti,
					REM_LOG_BIO_BYTES_MAX >> SECTOR_SHIFT);
}

static void rem_log_dtr(struct dm_target *ti)
{
	struct rem_log *log = ti->private;
	int err;

	mutex_lock(&rem_logs_change);
	spin_lock(&rem_logs_lock);
	list_del(&log->list);
	spin_unlock(&rem_logs_lock);
	mutex_unlock(&rem_logs_change);
	rem_log_behind_wait(log);
	destroy_workqueue(log->queue);
	/* Before the cache is switched off, which does not flush it. */
	err = log->failed ? -EIO : rem_log_settle(log);
	if (err)
		pr_err("remanence: the log of %s ends with data that are not on the disk: %pe\n",
		       log->owner.disk->disk_name, ERR_PTR(err));
	/* What is on the disk needs no redo; what is not waits for one. */
	if (log->redo && !err)
		rem_redo_end(log->redo, true);
	rem_log_disk_give(log);
	if (log->redo && err) {
		rem_redo_end(log->redo, false);
		rem_redo_retry();
	}
	rem_log_ring_free(log);
	kfree(log);
}

/* Who reads the disk itself while the target is suspended finds all writes there. */
static void rem_log_postsuspend(struct dm_target *ti)
{
	rem_log_behind_wait(ti->private);
}

static void rem_log_status(struct dm_target *ti, status_type_t type,
			   unsigned int status_flags, char *result,
			   unsigned int maxlen)
{
	struct rem_log *log = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		spin_lock_irq(&log->lock);
		DMEMIT("used %llu/%llu held %u replays %llu replayed %llu flushes %llu %s",
		       (log->tail - log->head) << PAGE_SHIFT,
		       (u64)log->slots << PAGE_SHIFT, log->held_count,
		       log->replays, log->replayed_bytes, log->flushes,
		       log->failed ? "failed" : "ok");
		if (log->redo)
			DMEMIT(" redo %s covered %llu head %llu ended %llu ended_writes %llu",
			       log->early ? "memory" : "disk", log->covered,
			       log->head, log->ended, log->ended_writes);
		spin_unlock_irq(&log->lock);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %u", log->dev->name, log->mib);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",disk=%s,mib=%u;", log->dev->name, log->mib);
		break;
	}
}

static int rem_log_iterate(struct dm_target *ti, iterate_devices_callout_fn fn,
			   void *data)
{
	struct rem_log *log = ti->private;

	return fn(ti, log->dev, 0, ti->len, data);
}

/* A bio that was held is not in the queue that its task polls. */
static void rem_log_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	limits->features &= ~BLK_FEAT_POLL;
}

static struct target_type rem_log_target = {
	.name = "remanence-log",
	.version = { 1, 0, 0 },
	.features = DM_TARGET_SINGLETON | DM_TARGET_ALWAYS_WRITEABLE,
	.module = THIS_MODULE,
	.ctr = rem_log_ctr,
	.dtr = rem_log_dtr,
	.map = rem_log_map,
	.end_io = rem_log_end_io,
	.postsuspend = rem_log_postsuspend,
	.status = rem_log_status,
	.iterate_devices = rem_log_iterate,
	.io_hints = rem_log_io_hints,
};

/* Before dm-mod.create= is parsed, which may name the target. */
static int __init rem_log_init(void)
{
	return dm_register_target(&rem_log_target);
}
device_initcall(rem_log_init);
