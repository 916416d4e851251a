// SPDX-License-Identifier: GPL-2.0-only
/*
 * An fsync that ends in memory: what changed since the last one is written back from
 * the caches to NVRAM and registered, and no disk is waited for. Whatever that does
 * not cover is the file system's own fsync.
 */
#include <linux/crc32c.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>

#include "persist.h"

struct rem_persist_counts rem_counts;

/* Of its time, ctime says whether something but data and size has changed. */
static bool only_data_changed(struct rem_file *file)
{
	struct inode *inode = file->inode;
	struct timespec64 ctime = inode_get_ctime(inode);
	struct timespec64 mtime = inode_get_mtime(inode);

	return timespec64_equal(&ctime, &file->ctime) ||
	       timespec64_equal(&ctime, &mtime);
}

static bool may_end_in_memory(struct rem_file *file, int datasync)
{
	struct address_space *mapping = file->inode->i_mapping;

	return file->known && !READ_ONCE(file->overflow) &&
	       rem_persist_covers(file->inode->i_sb) &&
	       !errseq_check(&mapping->wb_err, file->wb_err) &&
	       (datasync || only_data_changed(file));
}

/*
 * Bring a changed page to NVRAM. Programs that have it mapped fault at their next
 * store, so that it is noted.
 */
static int write_back_page(struct rem_file *file, pgoff_t index, u32 *ret_crc)
{
	struct address_space *mapping = file->inode->i_mapping;
	struct folio *folio = filemap_lock_folio(mapping, index);
	struct page *page;
	void *value;
	int err = 0;

	if (IS_ERR(folio))
		return PTR_ERR(folio);
	page = folio_file_page(folio, index);
	xa_clear_mark(&file->pages, index, REM_CHANGED);
	if (folio_mapped(folio) && folio_mkclean(folio))
		folio_mark_dirty(folio);
	value = xa_load(&file->pages, index);
	if (!xa_to_value(value)) {
		int entry = rem_entry_take(file->id, index, page);

		if (entry < 0) {
			err = entry;
		} else {
			/* There is an item already, so this allocates nothing. */
			xa_lock(&file->pages);
			__xa_cmpxchg(&file->pages, index, value,
				     xa_mk_value(entry + 1), GFP_ATOMIC);
			xa_unlock(&file->pages);
			file->entries++;
			atomic64_inc(&rem_counts.pages);
		}
	} else if (rem_entry_page(xa_to_value(value) - 1) != page) {
		err = -ESTALE;
	}
	if (err) {
		xa_set_mark(&file->pages, index, REM_CHANGED);
	} else {
		arch_wb_cache_pmem(page_address(page), PAGE_SIZE);
		*ret_crc = ~crc32c(~0, page_address(page), PAGE_SIZE);
	}
	folio_unlock(folio);
	folio_put(folio);
	return err;
}

static void acknowledge_page(struct rem_file *file, pgoff_t index, u32 crc)
{
	u32 entry = xa_to_value(xa_load(&file->pages, index)) - 1;

	rem_entry_renew(entry);
	xa_lock(&file->pages);
	/* Unless it changes again. */
	if (!xa_get_mark(&file->pages, index, REM_CHANGED))
		rem_entry_steady(entry, crc);
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
	rem_record_write(file->slot, record);
	file->recorded = true;
}

/* Pages that one round brings to NVRAM before it acknowledges them. */
#define ROUND 64

/* Up to ROUND changed pages from *@next on. Return: how many, or a negative errno. */
static int sync_round(struct rem_file *file, unsigned long *next, pgoff_t last)
{
	pgoff_t indices[ROUND];
	u32 crcs[ROUND];
	int count = 0, i, err = 0;

	while (count < ROUND &&
	       xa_find(&file->pages, next, last, REM_CHANGED)) {
		err = write_back_page(file, *next, &crcs[count]);
		if (err)
			break;
		indices[count++] = *next;
		if (*next == last)
			break;
		++*next;
	}
	/* Data first: an entry never vouches for what is not there. */
	rem_registry_fence();
	for (i = 0; i < count; i++)
		acknowledge_page(file, indices[i], crcs[i]);
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
	file->ctime = inode_get_ctime(file->inode);
	return 0;
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
	/* Changes from now on are noted again. */
	xa_for_each_marked(&watched->pages, index, value, REM_CHANGED)
		xa_clear_mark(&watched->pages, index, REM_CHANGED);
	watched->wb_err = filemap_sample_wb_err(inode->i_mapping);
	ctime = inode_get_ctime(inode);
	atomic64_inc(&rem_counts.by_disk);
	err = file->f_op->fsync(file, 0, LLONG_MAX, 0);
	if (err)
		return err;
	rem_file_forget_pages(watched, U64_MAX);
	watched->ctime = ctime;
	watched->known = true;
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
	if (!watched && S_ISREG(inode->i_mode) && !IS_DAX(inode) &&
	    rem_persist_covers(inode->i_sb))
		watched = rem_file_watch(inode);
	if (!watched)
		return file->f_op->fsync(file, start, end, datasync);
	watched->used = jiffies;
	err = -EAGAIN;
	if (rem_persist_enter()) {
		if (may_end_in_memory(watched, datasync))
			err = sync_to_memory(watched, start >> PAGE_SHIFT,
					     end >> PAGE_SHIFT, datasync);
		rem_persist_exit();
	}
	if (err)
		err = sync_to_disk(watched, file);
	else
		atomic64_inc(&rem_counts.in_memory);
	rem_file_unlock(watched);
	if (rem_registry_used() > rem_registry_pages() / 2)
		rem_drain_kick();
	return err;
}

/**
 * __rem_persist_drain - before a file is truncated, punched, cloned, written directly
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
