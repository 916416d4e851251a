/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this directory share. README.md has how they hang together. */
#ifndef REM_PERSIST_PRIVATE_H
#define REM_PERSIST_PRIVATE_H

#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/remanence/rem_persist.h>
#include <linux/remanence/rem_registry.h>
#include <linux/xarray.h>

/* Of a page in rem_file.pages: changed since the last fsync of its file. */
#define REM_CHANGED XA_MARK_0

/**
 * struct rem_file - a file whose fsyncs may end in memory
 * @inode: referenced
 * @refs: of users, and one while it is watched
 * @gone: it is not watched any more
 * @id: in the registry
 * @slot: of its record in the registry
 * @lock: an fsync or a drain runs; below i_rwsem, above page locks
 * @pages: by index: number of the page's entry + 1, or 0 if it has none
 * @entries: how many of them have entries
 * @known: the file system has its inode and all that @pages does not have
 * @overflow: memory for @pages was missing: a change may not be in it
 * @recorded: the registry has its record
 * @record: the last copy
 * @ctime: at the last fsync
 * @used: jiffies of the last fsync
 * @wb_err: sees errors of write-back
 */
struct rem_file {
	struct inode *inode;
	refcount_t refs;
	bool gone;
	u64 id;
	u32 slot;
	struct mutex lock; /* held by an fsync, a drain, a reader of @pages */
	struct xarray pages;
	unsigned long entries;
	bool known;
	bool overflow;
	bool recorded;
	struct rem_registry_file record;
	struct timespec64 ctime;
	unsigned long used;
	errseq_t wb_err;
};

/* What administrators see. */
struct rem_persist_counts {
	atomic64_t in_memory;
	atomic64_t by_disk;
	atomic64_t drains;
	atomic64_t pages;
};

extern struct rem_persist_counts rem_counts;

/* registry.c: the bytes in NVRAM */
int rem_registry_open(void);
bool rem_registry_found(void);
bool rem_registry_clear(u32 entry);
void rem_registry_format(void);
u32 rem_registry_pages(void);
u32 rem_registry_files(void);
u32 rem_registry_used(void);
const void *rem_registry_bytes(size_t *ret_bytes);
void rem_registry_fence(void);
int rem_entry_take(u64 id, pgoff_t index, struct page *page);
void rem_entry_steady(u32 entry, u32 crc);
void rem_entry_renew(u32 entry);
void rem_entry_changing(u32 entry);
void rem_entry_drop(u32 entry);
struct page *rem_entry_page(u32 entry);
u64 rem_entry_epoch(u32 entry);
int rem_record_take(u64 *ret_id);
void rem_record_write(u32 slot, struct rem_registry_file *record);
void rem_record_drop(u32 slot);
void rem_record_give(u32 slot);

/* files.c: which files are watched */
struct rem_file *rem_file_lock(struct inode *inode);
struct rem_file *rem_file_watch(struct inode *inode);
void rem_file_unlock(struct rem_file *file);
void rem_file_forget_pages(struct rem_file *file, u64 before_epoch);
void rem_file_forget(struct rem_file *file);
void rem_files_lock(void);
void rem_files_unlock(void);
struct rem_file *rem_files_next(unsigned long *cursor);

/* drain.c */
extern atomic64_t rem_epoch;
int rem_drain_sb(struct super_block *sb);
void rem_drain_all(void);
void rem_drain_kick(void);
void rem_drain_start(void);

/* state.c */
bool rem_persist_enter(void);
void rem_persist_exit(void);
bool rem_persist_covers(struct super_block *sb);

#endif /* REM_PERSIST_PRIVATE_H */
