// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files whose fsyncs may end in memory, and which of their pages changed since.
 */
#include <linux/exportfs.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/slab.h>

#include "persist.h"

/* By inode. Readers that only mark a page use RCU. */
static DEFINE_XARRAY(watched);
static DEFINE_MUTEX(watched_lock);

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

static void put(struct rem_file *file)
{
	if (!refcount_dec_and_test(&file->refs))
		return;
	rem_record_give(file->slot);
	xa_destroy(&file->pages);
	iput(file->inode);
	kfree(file);
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
	refcount_set(&file->refs, 1);
	mutex_init(&file->lock);
	xa_init(&file->pages);
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

/**
 * rem_file_forget - watch a file no more; what it has registered is dropped
 * @file: may be freed
 *
 * Context: process, with rem_files_lock() held.
 */
void rem_file_forget(struct rem_file *file)
{
	mutex_lock(&file->lock);
	rem_file_forget_pages(file, U64_MAX);
	file->gone = true;
	clear_bit(AS_REM_PERSIST, &file->inode->i_mapping->flags);
	xa_erase(&watched, key_of(file->inode));
	mutex_unlock(&file->lock);
	/* Those that have only a page. */
	synchronize_rcu();
	put(file);
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
