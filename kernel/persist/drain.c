// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registered pages go to their disks: when the registry fills, when memory is short,
 * when the machine ceases to promise a Stop, before a file system is unmounted, and some
 * time after they were acknowledged, if an administrator wants that. It needs nothing of
 * a file system but what sync(2) needs.
 */
#include <linux/backing-dev.h>
#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/pagemap.h>
#include <linux/printk.h>
#include <linux/shrinker.h>
#include <linux/workqueue.h>
#include <linux/writeback.h>

#include "persist.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

static unsigned int drain_s;
module_param_named(persist_drain_s, drain_s, uint, 0644);
MODULE_PARM_DESC(persist_drain_s, "Seconds after which acknowledged pages go to their disks; 0: when room is short");

/* Files without an fsync for so long are let go. */
#define IDLE (10 * HZ)

atomic64_t rem_epoch = ATOMIC64_INIT(1);

/* Since when there has been something to drain, to a second. */
static unsigned long since;

/* When changes were registered last that nobody has synced. */
static unsigned long kept;

/* Registered pages are referenced, so reclaim cannot take them. */
static bool memory_is_short;

/* Not while a machine goes to sleep: disks that are suspended answer nothing. */
static void drain_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(work, drain_work);

/* Entries of an earlier epoch: their content is in the page cache, and dirty. */
static u64 next_epoch(struct super_block *sb)
{
	u64 epoch = atomic64_inc_return(&rem_epoch);
	unsigned long cursor = 0;
	struct rem_file *file;

	while ((file = rem_files_next(&cursor)))
		if (file->inode->i_sb == sb) {
			mutex_lock(&file->lock);
			mutex_unlock(&file->lock);
			file->drained = epoch;
		}
	return epoch;
}

static int write_files(struct super_block *sb)
{
	unsigned long cursor = 0;
	struct rem_file *file;
	int err = 0;

	while ((file = rem_files_next(&cursor)))
		if (file->inode->i_sb == sb && file->entries)
			filemap_fdatawrite(file->inode->i_mapping);
	cursor = 0;
	while ((file = rem_files_next(&cursor)))
		if (file->inode->i_sb == sb && file->entries) {
			int one = filemap_write_and_wait(file->inode->i_mapping);

			err = err ?: one ?: sync_inode_metadata(file->inode, 1);
		}
	return err;
}

/* As sync_filesystem(), of which the caller's s_umount reminds. */
static int sync_rest(struct super_block *sb)
{
	int err = 0;

	if (sb->s_op->sync_fs)
		err = sb->s_op->sync_fs(sb, 1);
	return err ?: sync_blockdev(sb->s_bdev) ?: blkdev_issue_flush(sb->s_bdev);
}

static void forget_pages(struct super_block *sb, u64 epoch)
{
	unsigned long cursor = 0;
	struct rem_file *file;

	while ((file = rem_files_next(&cursor))) {
		if (file->inode->i_sb != sb)
			continue;
		mutex_lock(&file->lock);
		if (!errseq_check(&file->inode->i_mapping->wb_err, file->wb_err))
			rem_file_forget_pages(file, epoch);
		mutex_unlock(&file->lock);
	}
}

/**
 * rem_drain_sb - bring the registered pages of a file system to its disk
 * @sb: its s_umount is held
 *
 * Return: 0 or a negative errno: then they stay registered.
 */
int rem_drain_sb(struct super_block *sb)
{
	u64 epoch;
	int err;

	rem_files_lock();
	epoch = next_epoch(sb);
	err = write_files(sb) ?: sync_rest(sb);
	if (!err) {
		forget_pages(sb, epoch);
		rem_unlinked_forget(sb, epoch);
	} else {
		rem_unlinked_renew(sb, epoch);
	}
	rem_files_unlock();
	atomic64_inc(&rem_counts.drains);
	if (err)
		pr_warn_ratelimited("remanence: %s: acknowledged pages cannot be written: %pe; they stay in memory\n",
				    sb->s_id, ERR_PTR(err));
	return err;
}

/*
 * A file system that has not been drained since an epoch, and has registered pages or
 * files that were unlinked before it; it stays mounted. What programs register while it
 * is drained is no reason to drain it again: they may do that for ever.
 */
static struct super_block *next_sb(u64 before_epoch)
{
	struct super_block *sb = NULL;
	unsigned long cursor = 0;
	struct rem_file *file;

	rem_files_lock();
	while (!sb && (file = rem_files_next(&cursor)))
		if (file->entries && file->drained < before_epoch &&
		    atomic_inc_not_zero(&file->inode->i_sb->s_active))
			sb = file->inode->i_sb;
	sb = sb ?: rem_unlinked_next(before_epoch);
	rem_files_unlock();
	return sb;
}

/** rem_drain_all - bring all registered pages to their disks. Context: process. */
void rem_drain_all(void)
{
	/* Each drain makes a new one, also if it fails. */
	u64 epoch = atomic64_read(&rem_epoch) + 1;
	struct super_block *sb;

	while ((sb = next_sb(epoch))) {
		down_read(&sb->s_umount);
		rem_drain_sb(sb);
		up_read(&sb->s_umount);
		deactivate_super(sb);
	}
}

/*
 * What was unlinked needs no more than that its file system commits that. Registered
 * pages of others stay.
 */
static void drain_unlinked(void)
{
	u64 before_epoch = atomic64_read(&rem_epoch) + 1, epoch;
	struct super_block *sb;
	int err;

	rem_files_lock();
	while ((sb = rem_unlinked_next(before_epoch))) {
		epoch = atomic64_inc_return(&rem_epoch);
		rem_files_unlock();
		down_read(&sb->s_umount);
		err = sync_rest(sb);
		up_read(&sb->s_umount);
		rem_files_lock();
		if (err)
			rem_unlinked_renew(sb, epoch);
		else
			rem_unlinked_forget(sb, epoch);
		rem_files_unlock();
		deactivate_super(sb);
		rem_files_lock();
	}
	rem_files_unlock();
}

/*
 * In place of the kernel's periodic write-back, and for what is as old as it waits for:
 * changes that nobody has synced are registered, too.
 */
static void keep_changes(void)
{
	unsigned long age = msecs_to_jiffies(dirty_expire_interval * 10);
	unsigned long cursor = 0;
	struct rem_file *file;

	if (time_before(jiffies, kept + age))
		return;
	kept = jiffies;
	rem_files_lock();
	while ((file = rem_files_next(&cursor)))
		rem_file_keep(file);
	rem_files_unlock();
}

/* Only files that have nothing registered, and no fsync for so many jiffies. */
static void let_go(unsigned long idle)
{
	unsigned long cursor = 0;
	struct rem_file *file;

	rem_files_lock();
	while ((file = rem_files_next(&cursor)))
		if (!file->entries && rem_file_is_idle(file, idle))
			rem_file_forget_idle(file, idle);
	rem_files_unlock();
}

static bool is_late(void)
{
	return drain_s && time_after(jiffies, since + drain_s * HZ);
}

static void drain_work(struct work_struct *unused)
{
	bool fills = rem_registry_fills();
	bool shrinks = xchg(&memory_is_short, false);

	if (!rem_registry_used())
		since = jiffies;
	if (fills)
		drain_unlinked();
	if ((fills && rem_registry_is_half_full()) || shrinks || is_late()) {
		rem_drain_all();
		since = jiffies;
	}
	keep_changes();
	let_go(rem_registry_files_fill() ? 0 : IDLE);
	queue_delayed_work(system_freezable_wq, &work, HZ);
}

static unsigned long count_pages(struct shrinker *shrinker,
				 struct shrink_control *control)
{
	return rem_registry_used() ?: SHRINK_EMPTY;
}

/* The next turn of the work drains: who looks for memory may not wait for disks. */
static unsigned long scan_pages(struct shrinker *shrinker,
				struct shrink_control *control)
{
	WRITE_ONCE(memory_is_short, true);
	return SHRINK_STOP;
}

/** rem_drain_kick - the registry fills. Context: any. */
void rem_drain_kick(void)
{
	mod_delayed_work(system_freezable_wq, &work, 0);
}

/** rem_drain_start - begin to drain in the background. Context: process, once. */
void rem_drain_start(void)
{
	struct shrinker *shrinker = shrinker_alloc(0, "rem-persist");

	if (shrinker) {
		shrinker->count_objects = count_pages;
		shrinker->scan_objects = scan_pages;
		shrinker_register(shrinker);
	}
	since = jiffies;
	kept = jiffies;
	queue_delayed_work(system_freezable_wq, &work, HZ);
}

/**
 * __rem_persist_leave - a file system is unmounted
 * @sb: everything of it has been synced, and nobody uses it
 */
void __rem_persist_leave(struct super_block *sb)
{
	unsigned long cursor = 0;
	struct rem_file *file;

	rem_files_lock();
	while ((file = rem_files_next(&cursor)))
		if (file->inode->i_sb == sb)
			rem_file_forget(file);
	rem_unlinked_forget(sb, U64_MAX);
	rem_files_unlock();
}
