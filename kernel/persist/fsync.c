// SPDX-License-Identifier: GPL-2.0-only
/*
 * An fsync that ends in memory: what changed since the last one is written back from
 * the caches to NVRAM and registered, and no disk is waited for. Whatever that does
 * not cover is the file system's own fsync.
 */
#include <linux/export.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/string.h>

#include "persist.h"

struct rem_persist_counts rem_counts;

/*
 * Of its time, ctime says whether something but data and size has changed, unless a
 * change of data came after it. That is for changes that nobody tells us of.
 */
static bool only_data_changed(struct rem_file *file)
{
	struct inode *inode = file->inode;
	struct timespec64 ctime = inode_get_ctime(inode);
	struct timespec64 mtime = inode_get_mtime(inode);

	return timespec64_equal(&ctime, &file->ctime) ||
	       timespec64_equal(&ctime, &mtime);
}

/* A replay could not write it. */
static bool is_closed(const struct inode *inode)
{
	return IS_APPEND(inode) || IS_IMMUTABLE(inode) || IS_VERITY(inode);
}

static bool may_end_in_memory(struct rem_file *file, int datasync)
{
	struct address_space *mapping = file->inode->i_mapping;

	return file->known && !is_closed(file->inode) &&
	       !READ_ONCE(file->overflow) &&
	       rem_persist_covers(file->inode->i_sb) &&
	       !READ_ONCE(file->changed) &&
	       !errseq_check(&mapping->wb_err, file->wb_err) &&
	       (datasync || only_data_changed(file));
}

/*
 * Whether all of a page has been read or written. Where blocks are smaller, the others
 * of a page may be on the disk only, and a replay would write over them what the page
 * happens to have.
 */
static bool is_whole(struct folio *folio, pgoff_t index)
{
	const struct address_space_operations *ops = folio->mapping->a_ops;

	return folio_test_uptodate(folio) ||
	       (ops->is_partially_uptodate &&
		ops->is_partially_uptodate(folio,
					   (index - folio->index) * PAGE_SIZE,
					   PAGE_SIZE));
}

/*
 * What is behind the end of a file in its last page is zero whenever a file system
 * writes that, and programs that have it mapped may store there. As then the page is
 * locked, so the end cannot move over it meanwhile.
 */
static void zero_behind_end(struct inode *inode, struct page *page,
			    pgoff_t index)
{
	loff_t end = i_size_read(inode);
	size_t at = offset_in_page(end);
	u8 *bytes = page_address(page);

	/* Stored only if it is needed: each line of it would go to NVRAM. */
	if (end >> PAGE_SHIFT == index && memchr_inv(bytes + at, 0,
						     PAGE_SIZE - at))
		memset(bytes + at, 0, PAGE_SIZE - at);
}

/* A page that a round has brought to NVRAM, and what its entry is to say. */
struct synced {
	pgoff_t index;
	u32 entry;
	u32 crc;
};

/* @value: the item of @index; there is one. Return: the page's entry, or a negative errno. */
static int register_page(struct rem_file *file, pgoff_t index, void *value,
			 struct page *page)
{
	unsigned long has = xa_to_value(value);
	int entry;

	if (has)
		return rem_entry_page(has - 1) == page ? has - 1 : -ESTALE;
	entry = rem_entry_take(file->id, index, page);
	if (entry < 0)
		return entry;
	/* In place of an item, so this allocates nothing. */
	xa_lock(&file->pages);
	__xa_cmpxchg(&file->pages, index, value, xa_mk_value(entry + 1),
		     GFP_ATOMIC);
	xa_unlock(&file->pages);
	file->entries++;
	atomic64_inc(&rem_counts.pages);
	return entry;
}

/*
 * Bring a changed page to NVRAM. Programs that have it mapped fault at their next
 * store, so that it is noted. @value: its item.
 */
static int write_back_page(struct rem_file *file, pgoff_t index, void *value,
			   struct synced *ret_synced)
{
	struct address_space *mapping = file->inode->i_mapping;
	struct folio *folio = filemap_lock_folio(mapping, index);
	struct page *page;
	int entry = -EAGAIN;

	if (IS_ERR(folio))
		return PTR_ERR(folio);
	if (!is_whole(folio, index))
		goto unlock;
	/* What is pinned may change without a fault: by a device. */
	if (folio_maybe_dma_pinned(folio))
		goto unlock;
	page = folio_file_page(folio, index);
	xa_clear_mark(&file->pages, index, REM_CHANGED);
	if (folio_mapped(folio) && folio_mkclean(folio))
		folio_mark_dirty(folio);
	entry = register_page(file, index, value, page);
	if (entry < 0) {
		xa_set_mark(&file->pages, index, REM_CHANGED);
		goto unlock;
	}
	zero_behind_end(file->inode, page, index);
	ret_synced->index = index;
	ret_synced->entry = entry;
	/* While its lines are in the caches, which the write-back may leave empty. */
	ret_synced->crc = rem_checksum(page_address(page), PAGE_SIZE);
	rem_registry_keep(page);
unlock:
	folio_unlock(folio);
	folio_put(folio);
	return min(entry, 0);
}

static void acknowledge_page(struct rem_file *file, const struct synced *synced)
{
	rem_entry_renew(synced->entry);
	xa_lock(&file->pages);
	/* Steady unless it changes again. */
	rem_entry_acknowledge(synced->entry, file->id,
			      !xa_get_mark(&file->pages, synced->index,
					   REM_CHANGED),
			      synced->crc);
	xa_unlock(&file->pages);
}

static void record_file(struct rem_file *file, int datasync)
{
	struct inode *inode = file->inode;
	struct rem_registry_file *record = &file->record;
	struct timespec64 mtime = inode_get_mtime(inode);
	u64 bytes = i_size_read(inode);

	if (file->recorded && datasync && record->bytes == bytes)
		return;
	record->bytes = bytes;
	record->mtime_s = mtime.tv_sec;
	record->mtime_ns = mtime.tv_nsec;
	record->mode = inode->i_mode;
	record->uid = i_uid_read(inode);
	record->gid = i_gid_read(inode);
	rem_record_write(file->slot, record, !file->recorded);
	file->recorded = true;
}

/* Pages that one round brings to NVRAM before it acknowledges them. */
#define ROUND 64

/* Up to ROUND changed pages from *@next on. Return: how many, or a negative errno. */
static int sync_round(struct rem_file *file, unsigned long *next, pgoff_t last)
{
	struct synced synced[ROUND];
	int count = 0, i, err = 0;
	void *value;

	while (count < ROUND &&
	       (value = xa_find(&file->pages, next, last, REM_CHANGED))) {
		err = write_back_page(file, *next, value, &synced[count]);
		if (err)
			break;
		count++;
		if (*next == last)
			break;
		++*next;
	}
	/* Data first: an entry never vouches for what is not there. */
	rem_registry_fence();
	for (i = 0; i < count; i++)
		acknowledge_page(file, &synced[i]);
	return err ?: count;
}

static int sync_to_memory(struct rem_file *file, pgoff_t first, pgoff_t last,
			  int datasync)
{
	unsigned long next = first;
	int count;

	do {
		count = sync_round(file, &next, last);
		cond_resched();
	} while (count == ROUND);
	if (count < 0)
		return count;
	record_file(file, datasync);
	rem_registry_fence();
	if (!datasync)
		file->ctime = inode_get_ctime(file->inode);
	return 0;
}

/* Of bytes from @start to @end. Return: 0, or a negative errno: the file system has to. */
static int end_in_memory(struct rem_file *file, loff_t start, loff_t end,
			 int datasync)
{
	int err = -EAGAIN;

	if (!rem_persist_enter())
		return err;
	if (may_end_in_memory(file, datasync))
		err = sync_to_memory(file, start >> PAGE_SHIFT,
				     end >> PAGE_SHIFT, datasync);
	rem_persist_exit();
	return err;
}

/**
 * rem_file_keep - register what has changed in a file since its last fsync
 * @file: if that cannot be, it is left to write-back, and the next fsync is not in memory
 *
 * Nobody is promised anything.
 *
 * Context: process, with rem_files_lock() held.
 */
void rem_file_keep(struct rem_file *file)
{
	mutex_lock(&file->lock);
	if (xa_marked(&file->pages, REM_CHANGED) && rem_persist_enter()) {
		if (!may_end_in_memory(file, 1) ||
		    sync_to_memory(file, 0, ULONG_MAX, 1))
			file->known = false;
		rem_persist_exit();
	}
	mutex_unlock(&file->lock);
}

/*
 * Who writes through the page cache holds i_rwsem, and may have begun before the file was
 * watched: then nobody has noted what is written.
 */
static void settle(struct rem_file *watched)
{
	if (watched->settled || !inode_trylock_shared(watched->inode))
		return;
	inode_unlock_shared(watched->inode);
	watched->settled = true;
}

/* The file system's own: after it the disk has all that was written before. */
static int sync_to_disk(struct rem_file *watched, struct file *file)
{
	struct inode *inode = watched->inode;
	struct timespec64 ctime;
	unsigned long index;
	void *value;
	int err;

	watched->known = false;
	WRITE_ONCE(watched->overflow, false);
	WRITE_ONCE(watched->changed, false);
	/* Changes from now on are noted again. */
	xa_for_each_marked(&watched->pages, index, value, REM_CHANGED)
		xa_clear_mark(&watched->pages, index, REM_CHANGED);
	watched->wb_err = filemap_sample_wb_err(inode->i_mapping);
	ctime = inode_get_ctime(inode);
	err = file->f_op->fsync(file, 0, LLONG_MAX, 0);
	if (err)
		return err;
	rem_file_forget_pages(watched, U64_MAX);
	watched->ctime = ctime;
	watched->known = watched->settled;
	return 0;
}

/* Register all pages that the disk may not have. Return: 0 or a negative errno. */
static int keep_pages(struct rem_file *watched, const struct file *file)
{
	struct address_space *mapping = watched->inode->i_mapping;
	int err = -EAGAIN;

	if (!rem_persist_enter())
		return err;
	/* An error that nobody has been told of is the file system's to tell. */
	if (rem_persist_covers(watched->inode->i_sb) &&
	    !is_closed(watched->inode) && !READ_ONCE(watched->overflow) &&
	    !errseq_check(&mapping->wb_err, watched->wb_err) &&
	    !errseq_check(&mapping->wb_err, READ_ONCE(file->f_wb_err)))
		err = rem_file_note_unwritten(watched) ?:
		      sync_to_memory(watched, 0, ULONG_MAX, 0);
	rem_persist_exit();
	return err;
}

/*
 * The data ends in memory; the file system's fsync, of no byte, has the inode and what
 * leads to it. Without pages a journal's commit has little to wait for.
 */
static int sync_inode(struct rem_file *watched, struct file *file)
{
	struct timespec64 ctime;
	int err;

	watched->known = false;
	WRITE_ONCE(watched->changed, false);
	ctime = inode_get_ctime(watched->inode);
	if (keep_pages(watched, file))
		return sync_to_disk(watched, file);
	err = file->f_op->fsync(file, 0, -1, 0);
	if (err)
		return err;
	/* What is drained meanwhile may not be on the disk yet. */
	if (!rem_persist_covers(watched->inode->i_sb))
		return sync_to_disk(watched, file);
	watched->ctime = ctime;
	watched->known = watched->settled;
	return 0;
}

/**
 * __rem_persist_fsync - fsync, fdatasync, msync, a write with O_SYNC or O_DSYNC
 * @file: open
 * @start: first byte
 * @end: last byte
 * @datasync: only what reading the data needs
 *
 * Return: 0 or a negative errno, as the file system's own.
 */
int __rem_persist_fsync(struct file *file, loff_t start, loff_t end,
			int datasync)
{
	struct inode *inode = file->f_mapping->host;
	struct rem_file *watched = NULL;
	int err;

	if (S_ISREG(inode->i_mode))
		watched = rem_file_lock(inode);
	if (!watched && S_ISREG(inode->i_mode) && inode->i_nlink &&
	    !IS_DAX(inode) && !is_closed(inode) && rem_persist_covers(inode->i_sb))
		watched = rem_file_watch(inode);
	if (!watched)
		return file->f_op->fsync(file, start, end, datasync);
	watched->used = jiffies;
	settle(watched);
	err = end_in_memory(watched, start, end, datasync);
	atomic64_inc(err ? &rem_counts.by_disk : &rem_counts.in_memory);
	if (err)
		err = sync_inode(watched, file);
	rem_file_unlock(watched);
	if (rem_registry_fills())
		rem_drain_kick();
	return err;
}

/**
 * __rem_persist_sync_range - sync_file_range() that would write
 * @file: open
 * @start: first byte
 * @end: last byte
 *
 * It promises nothing that a crash leaves, and its data is as safe in memory.
 *
 * Return: whether that is so; else the file system has to write.
 */
bool __rem_persist_sync_range(struct file *file, loff_t start, loff_t end)
{
	struct rem_file *watched = rem_file_lock(file->f_mapping->host);
	int err;

	if (!watched)
		return false;
	err = end_in_memory(watched, start, end, 1);
	if (!err)
		atomic64_inc(&rem_counts.in_memory);
	rem_file_unlock(watched);
	return !err;
}

/**
 * __rem_persist_drain - before a file changes by other ways than its page cache
 * @inode: the file's
 * @file: the same, open, or NULL
 *
 * What was acknowledged by memory is on the disk when it returns, so that nothing
 * older than the change could be written over it later; and the next fsync is the
 * file system's own.
 *
 * Return: 0 or a negative errno.
 */
int __rem_persist_drain(struct inode *inode, struct file *file)
{
	struct rem_file *watched = rem_file_lock(inode);
	bool waits;
	int err = 0;

	if (!watched)
		return 0;
	/* On a stacked file system it may be another file's. */
	if (file && file->f_mapping->host != inode)
		file = NULL;
	waits = watched->entries;
	if (waits && file)
		err = sync_to_disk(watched, file);
	watched->known = false;
	rem_file_unlock(watched);
	if (!waits || file)
		return err;
	down_read(&inode->i_sb->s_umount);
	err = rem_drain_sb(inode->i_sb);
	up_read(&inode->i_sb->s_umount);
	return err;
}
EXPORT_SYMBOL_GPL(__rem_persist_drain);
