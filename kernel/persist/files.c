// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files whose fsyncs may end in memory, and which of their pages changed since.
 */
#include <linux/export.h>
#include <linux/exportfs.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pagevec.h>
#include <linux/slab.h>

#include "persist.h"

/* By inode. Readers that only mark a page use RCU. */
static DEFINE_XARRAY(watched);
static DEFINE_MUTEX(watched_lock);
/* Files without a name that have entries. Under the mutex. */
static LIST_HEAD(unlinked);

static unsigned long key_of(const struct inode *inode)
{
	return (unsigned long)inode >> 3;
}

/* Above each file's lock. */
void rem_files_lock(void)
{
	mutex_lock(&watched_lock);
}

void rem_files_unlock(void)
{
	mutex_unlock(&watched_lock);
}

/**
 * rem_files_next - iterate over the files, with rem_files_lock() held
 * @cursor: 0 at first
 *
 * Return: NULL at the end.
 */
struct rem_file *rem_files_next(unsigned long *cursor)
{
	struct rem_file *file;

	if (*cursor)
		file = xa_find_after(&watched, cursor, ULONG_MAX, XA_PRESENT);
	else
		file = xa_find(&watched, cursor, ULONG_MAX, XA_PRESENT);
	return file;
}

static void free_file(struct rcu_head *rcu)
{
	struct rem_file *file = container_of(rcu, struct rem_file, rcu);

	xa_destroy(&file->pages);
	kfree(file);
}

static void put(struct rem_file *file)
{
	if (!refcount_dec_and_test(&file->refs))
		return;
	rem_record_give(file->slot);
	if (file->inode)
		iput(file->inode);
	/* Some may have found it who have only a page. */
	call_rcu(&file->rcu, free_file);
}

/**
 * rem_file_lock - find a watched file, and lock it
 * @inode: in use by the caller
 *
 * Context: process.
 * Return: the file, for rem_file_unlock(), or NULL if it is not watched.
 */
struct rem_file *rem_file_lock(struct inode *inode)
{
	struct rem_file *file;

	if (!test_bit(AS_REM_PERSIST, &inode->i_mapping->flags))
		return NULL;
	rcu_read_lock();
	file = xa_load(&watched, key_of(inode));
	if (file && !refcount_inc_not_zero(&file->refs))
		file = NULL;
	rcu_read_unlock();
	if (!file)
		return NULL;
	mutex_lock(&file->lock);
	if (!file->gone)
		return file;
	rem_file_unlock(file);
	return NULL;
}

/** rem_file_unlock - undo rem_file_lock() and rem_file_watch() */
void rem_file_unlock(struct rem_file *file)
{
	mutex_unlock(&file->lock);
	put(file);
}

/* What a later kernel needs to find the file. */
static int describe(struct rem_file *file)
{
	struct inode *inode = file->inode;
	struct rem_registry_file *record = &file->record;
	int words = REM_REGISTRY_HANDLE_BYTES / 4;
	int type;

	type = exportfs_encode_inode_fh(inode, (struct fid *)record->handle,
					&words, NULL, 0);
	if (type < 0 || type == FILEID_INVALID)
		return -EOPNOTSUPP;
	record->id = file->id;
	record->inode = inode->i_ino;
	record->handle_type = type;
	record->handle_bytes = words * 4;
	memcpy(record->uuid, &inode->i_sb->s_uuid, sizeof(record->uuid));
	return 0;
}

static struct rem_file *make(struct inode *inode)
{
	struct rem_file *file = kzalloc(sizeof(*file), GFP_KERNEL);
	int slot;

	if (!file)
		return NULL;
	file->inode = inode;
	file->used = jiffies;
	file->drained = atomic64_read(&rem_epoch);
	refcount_set(&file->refs, 1);
	mutex_init(&file->lock);
	xa_init(&file->pages);
	file->wb_err = filemap_sample_wb_err(inode->i_mapping);
	slot = rem_record_take(&file->id);
	if (slot < 0)
		goto free;
	file->slot = slot;
	if (describe(file) ||
	    xa_err(xa_store(&watched, key_of(inode), file, GFP_KERNEL)))
		goto give;
	ihold(inode);
	set_bit(AS_REM_PERSIST, &inode->i_mapping->flags);
	return file;
give:
	rem_record_give(slot);
free:
	kfree(file);
	return NULL;
}

/**
 * rem_file_watch - note from now on which pages of a file change
 * @inode: in use by the caller
 *
 * Context: process.
 * Return: the file, locked, or NULL if there is no room for it, or not now.
 */
struct rem_file *rem_file_watch(struct inode *inode)
{
	struct rem_file *file;

	/*
	 * Who holds it may wait for a disk that is a file, whose own fsync then
	 * comes here.
	 */
	if (!mutex_trylock(&watched_lock))
		return NULL;
	file = xa_load(&watched, key_of(inode)) ?: make(inode);
	if (file)
		refcount_inc(&file->refs);
	rem_files_unlock();
	if (!file)
		return NULL;
	mutex_lock(&file->lock);
	if (!file->gone)
		return file;
	rem_file_unlock(file);
	return NULL;
}

/**
 * rem_file_forget_pages - what the disk has is not registered any more
 * @file: its lock is held
 * @before_epoch: only pages that were acknowledged before it
 */
void rem_file_forget_pages(struct rem_file *file, u64 before_epoch)
{
	unsigned long index;
	void *value;

	xa_for_each(&file->pages, index, value) {
		unsigned long entry = xa_to_value(value);

		if (entry && rem_entry_epoch(entry - 1) >= before_epoch)
			continue;
		/* A change that is noted stays noted. */
		xa_lock(&file->pages);
		if (!xa_get_mark(&file->pages, index, REM_CHANGED))
			__xa_erase(&file->pages, index);
		else if (entry)
			__xa_cmpxchg(&file->pages, index, value, xa_mk_value(0),
				     GFP_ATOMIC);
		xa_unlock(&file->pages);
		if (!entry)
			continue;
		rem_entry_drop(entry - 1);
		file->entries--;
		atomic64_dec(&rem_counts.pages);
	}
	if (file->entries)
		return;
	rem_registry_fence();
	if (file->recorded)
		rem_record_drop(file->slot);
	file->recorded = false;
}

static void unwatch(struct rem_file *file)
{
	file->gone = true;
	clear_bit(AS_REM_PERSIST, &file->inode->i_mapping->flags);
	xa_erase(&watched, key_of(file->inode));
}

/* With its lock held, which is released. */
static void forget(struct rem_file *file)
{
	rem_file_forget_pages(file, U64_MAX);
	unwatch(file);
	mutex_unlock(&file->lock);
	put(file);
}

/**
 * rem_file_forget - watch a file no more; what it has registered is dropped
 * @file: may be freed
 *
 * Context: process, with rem_files_lock() held.
 */
void rem_file_forget(struct rem_file *file)
{
	mutex_lock(&file->lock);
	forget(file);
}

/**
 * rem_file_is_idle - whether a file may be watched no more
 * @file: with nothing registered
 * @idle: jiffies since its last fsync
 *
 * Return: true if it may; one without a name at once.
 */
bool rem_file_is_idle(const struct rem_file *file, unsigned long idle)
{
	return !file->inode->i_nlink || time_after(jiffies, file->used + idle);
}

/**
 * rem_file_forget_idle - the same for a file that nobody has synced for a while
 * @file: may be freed
 * @idle: jiffies
 *
 * Looked at under its lock: while that is waited for, an fsync may register pages, and
 * what it has acknowledged must not be dropped.
 *
 * Context: process, with rem_files_lock() held.
 */
void rem_file_forget_idle(struct rem_file *file, unsigned long idle)
{
	mutex_lock(&file->lock);
	if (!file->entries && rem_file_is_idle(file, idle))
		forget(file);
	else
		mutex_unlock(&file->lock);
}

/**
 * __rem_persist_unlinked - a name of a file is gone
 * @inode: referenced by the caller
 *
 * If it was the last one, and nobody has the file open, it goes with its pages, which
 * no disk needs any more. But until the file system has been synced, a crash may bring
 * it back, and then with all that was acknowledged: so its entries stay until then, and
 * with them the pages.
 *
 * Context: process.
 */
void __rem_persist_unlinked(struct inode *inode)
{
	struct rem_file *file;

	if (inode->i_nlink || !test_bit(AS_REM_PERSIST, &inode->i_mapping->flags))
		return;
	/* Who drains uses the files. What goes to its disk now is freed later. */
	if (!mutex_trylock(&watched_lock))
		return;
	file = xa_load(&watched, key_of(inode));
	/* The caller's reference, and that of @file. */
	if (file && atomic_read(&inode->i_count) == 2) {
		unwatch(file);
		file->inode = NULL;
		file->sb = inode->i_sb;
		file->epoch = atomic64_read(&rem_epoch);
		iput(inode);
		if (file->entries)
			list_add_tail(&file->unlinked, &unlinked);
		else
			put(file);
	}
	rem_files_unlock();
}

/**
 * __rem_persist_replaces - a file is about to get the name of another one
 * @inode: the file's
 *
 * The disk has what the other one has. So that it has never neither, it gets the data
 * before the name. Errors are those of the next fsync.
 *
 * Context: process.
 */
void __rem_persist_replaces(struct inode *inode)
{
	struct rem_file *file = rem_file_lock(inode);
	unsigned long index;
	void *value;

	if (!file)
		return;
	filemap_write_and_wait(inode->i_mapping);
	/* So that a replay does not write them as they were before. */
	xa_for_each_marked(&file->pages, index, value, REM_CHANGED)
		if (xa_to_value(value))
			rem_registry_keep(rem_entry_page(xa_to_value(value) - 1));
	rem_registry_fence();
	rem_file_unlock(file);
}

/**
 * rem_unlinked_next - find what is left of an unlinked file
 * @before_epoch: only of one that was unlinked before it
 *
 * Context: process, with rem_files_lock() held.
 * Return: its file system, which stays mounted, or NULL.
 */
struct super_block *rem_unlinked_next(u64 before_epoch)
{
	struct rem_file *file;

	list_for_each_entry(file, &unlinked, unlinked)
		if (file->epoch < before_epoch &&
		    atomic_inc_not_zero(&file->sb->s_active))
			return file->sb;
	return NULL;
}

/**
 * rem_unlinked_forget - a file system has been synced: what is unlinked stays so
 * @sb: the file system
 * @before_epoch: only files that were unlinked before it
 *
 * Context: process, with rem_files_lock() held.
 */
void rem_unlinked_forget(struct super_block *sb, u64 before_epoch)
{
	struct rem_file *file, *next;

	list_for_each_entry_safe(file, next, &unlinked, unlinked) {
		if (file->sb != sb || file->epoch >= before_epoch)
			continue;
		list_del(&file->unlinked);
		rem_file_forget_pages(file, U64_MAX);
		put(file);
	}
}

/**
 * rem_unlinked_renew - a file system could not be synced
 * @sb: the file system
 * @epoch: its unlinked files are as of now
 *
 * Context: process, with rem_files_lock() held.
 */
void rem_unlinked_renew(struct super_block *sb, u64 epoch)
{
	struct rem_file *file;

	list_for_each_entry(file, &unlinked, unlinked)
		if (file->sb == sb)
			file->epoch = epoch;
}

/**
 * __rem_persist_changed - a file has changed by more than its page cache has
 * @inode: the file's
 *
 * Called after the change: an fsync of the file system that forgets this has it.
 *
 * Context: any but NMI.
 */
void __rem_persist_changed(struct inode *inode)
{
	struct rem_file *file;

	if (!test_bit(AS_REM_PERSIST, &inode->i_mapping->flags))
		return;
	rcu_read_lock();
	file = xa_load(&watched, key_of(inode));
	if (file)
		WRITE_ONCE(file->changed, true);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(__rem_persist_changed);

/**
 * __rem_persist_keeps - whether periodic write-back is to leave a file alone
 * @inode: its i_lock is held
 *
 * What is as old as that waits for is registered instead (rem_file_keep()).
 */
bool __rem_persist_keeps(struct inode *inode)
{
	struct rem_file *file;
	bool keeps;

	if (!test_bit(AS_REM_PERSIST, &inode->i_mapping->flags) ||
	    !rem_persist_covers(inode->i_sb) || rem_registry_fills())
		return false;
	rcu_read_lock();
	file = xa_load(&watched, key_of(inode));
	keeps = file && READ_ONCE(file->known) && !READ_ONCE(file->overflow) &&
		!READ_ONCE(file->changed);
	rcu_read_unlock();
	return keeps;
}

/* Under the lock of @file's pages, so that it and the end of an fsync are in order. */
static void note_change(struct rem_file *file, pgoff_t index)
{
	void *value;

	xa_lock(&file->pages);
	value = __xa_cmpxchg(&file->pages, index, NULL, xa_mk_value(0),
			     GFP_NOWAIT | __GFP_NOWARN);
	if (xa_is_err(value)) {
		WRITE_ONCE(file->overflow, true);
	} else {
		__xa_set_mark(&file->pages, index, REM_CHANGED);
		if (value && xa_to_value(value))
			rem_entry_changing(xa_to_value(value) - 1);
	}
	xa_unlock(&file->pages);
}

/**
 * __rem_persist_store - a program's bytes are about to go into pages of a file
 * @page: of a locked folio
 * @offset: from the start of @page
 * @bytes: up to the end of the folio
 */
void __rem_persist_store(struct page *page, size_t offset, size_t bytes)
{
	struct folio *folio = page_folio(page);
	struct address_space *mapping = folio_mapping(folio);
	struct rem_file *file;
	pgoff_t index, last;

	if (!mapping || !bytes || !test_bit(AS_REM_PERSIST, &mapping->flags))
		return;
	index = folio->index + folio_page_idx(folio, page);
	last = index + (offset + bytes - 1) / PAGE_SIZE;
	index += offset / PAGE_SIZE;
	rcu_read_lock();
	file = xa_load(&watched, key_of(mapping->host));
	for (; file && index <= last; index++)
		if (!xa_get_mark(&file->pages, index, REM_CHANGED))
			note_change(file, index);
	rcu_read_unlock();
}

/* Unless it is registered: changes of such a page are noted. */
static int note_unwritten(struct rem_file *file, pgoff_t index, u32 *left)
{
	void *value = xa_load(&file->pages, index);

	if (value && xa_to_value(value))
		return 0;
	if (!*left)
		return -ENOSPC;
	--*left;
	xa_lock(&file->pages);
	value = __xa_cmpxchg(&file->pages, index, NULL, xa_mk_value(0),
			     GFP_NOFS);
	if (!xa_is_err(value))
		__xa_set_mark(&file->pages, index, REM_CHANGED);
	xa_unlock(&file->pages);
	return xa_err(value);
}

static int note_folio(struct rem_file *file, struct folio *folio, u32 *left)
{
	pgoff_t index;
	int err = 0;

	for (index = folio->index; !err && index < folio_next_index(folio);
	     index++)
		err = note_unwritten(file, index, left);
	return err;
}

static int note_tagged(struct rem_file *file, xa_mark_t tag, u32 *left)
{
	struct folio_batch batch;
	pgoff_t next = 0;
	unsigned int i;
	int err = 0;

	folio_batch_init(&batch);
	while (!err && filemap_get_folios_tag(file->inode->i_mapping, &next,
					      ULONG_MAX, tag, &batch)) {
		for (i = 0; !err && i < folio_batch_count(&batch); i++)
			err = note_folio(file, batch.folios[i], left);
		folio_batch_release(&batch);
		cond_resched();
	}
	return err;
}

/**
 * rem_file_note_unwritten - note all pages that the file system has not written yet
 * @file: its lock is held
 *
 * Those that changed before the file was watched, or by the file system itself.
 *
 * Return: 0 or a negative errno; -ENOSPC: they are many.
 */
int rem_file_note_unwritten(struct rem_file *file)
{
	u32 left = rem_registry_pages() / 16;

	return note_tagged(file, PAGECACHE_TAG_DIRTY, &left) ?:
	       note_tagged(file, PAGECACHE_TAG_WRITEBACK, &left);
}
