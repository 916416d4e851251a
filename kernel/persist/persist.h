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
#include "redo_judge.h"

/* Of a page in rem_file.pages: changed since the last fsync of its file. */
#define REM_CHANGED XA_MARK_0

/**
 * struct rem_file - a file whose fsyncs may end in memory
 * @inode: referenced; NULL: it is unlinked, and only its entries are left
 * @refs: of users, and one while it is watched
 * @gone: it is not watched any more
 * @id: in the registry
 * @slot: of its record in the registry
 * @lock: an fsync or a drain runs; below i_rwsem, above page locks
 * @pages: by index: number of the page's entry + 1, or 0 if it has none
 * @entries: how many of them have entries
 * @settled: who wrote when it began to be watched has ended: each change is noted
 * @known: the file system has its inode and all that @pages does not have
 * @overflow: memory for @pages was missing: a change may not be in it
 * @changed: since the file system's last fsync, more than @pages and the record have
 * @recorded: the registry has its record
 * @record: the last copy
 * @ctime: at the last fsync
 * @used: jiffies of the last fsync
 * @drained: epoch of its file system's last drain, or when it was watched first
 * @wb_err: sees errors of write-back
 * @unlinked: in the list of those, with @sb and @epoch
 * @sb: its file system
 * @epoch: when its last name was gone
 * @rcu: readers of @pages
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
	bool settled;
	bool known;
	bool overflow;
	bool changed;
	bool recorded;
	struct rem_registry_file record;
	struct timespec64 ctime;
	unsigned long used;
	u64 drained;
	errseq_t wb_err;
	struct list_head unlinked;
	struct super_block *sb;
	u64 epoch;
	struct rcu_head rcu;
};

/* What administrators see. */
struct rem_persist_counts {
	atomic64_t in_memory;
	atomic64_t by_disk;
	atomic64_t drains;
	atomic64_t pages;
};

extern struct rem_persist_counts rem_counts;

/* checksum.c */
u32 rem_checksum(const void *data, size_t bytes);

/* registry.c: the bytes in NVRAM */
int rem_registry_open(void);
bool rem_registry_found(void);
bool rem_registry_clear(u32 entry);
void rem_registry_format(void);
u32 rem_registry_pages(void);
u32 rem_registry_files(void);
u32 rem_registry_used(void);
bool rem_registry_fills(void);
bool rem_registry_files_fill(void);
bool rem_registry_is_half_full(void);
const void *rem_registry_bytes(size_t *ret_bytes);
void rem_registry_fence(void);
void rem_registry_keep(struct page *page);
void rem_registry_leave_in_caches(bool leave);
int rem_entry_take(u64 id, pgoff_t index, struct page *page);
void rem_entry_acknowledge(u32 entry, u64 id, bool steady, u32 crc);
void rem_entry_renew(u32 entry);
void rem_entry_changing(u32 entry);
void rem_entry_drop(u32 entry);
struct page *rem_entry_page(u32 entry);
u64 rem_entry_epoch(u32 entry);
int rem_record_take(u64 *ret_id);
void rem_record_write(u32 slot, struct rem_registry_file *record, bool first);
void rem_record_drop(u32 slot);
void rem_record_give(u32 slot);

/* redo.c: the redo area, which is a part of them */
void rem_redo_open(void *at, u64 bytes);
void rem_redo_format(void);
enum rem_redo_state rem_redo_look(unsigned int n, struct rem_redo_seen *ret_ring,
				  char *ret_identity);
bool rem_redo_waits(void);
bool rem_redo_is_used(void);
const void *rem_redo_slot(const struct rem_redo_seen *ring, u64 position,
			  struct rem_redo_slot *ret_slot);
void rem_redo_forget(unsigned int n);

/* redo_disks.c */
extern struct kobj_attribute rem_redo_attr;

/* files.c: which files are watched */
struct rem_file *rem_file_lock(struct inode *inode);
struct rem_file *rem_file_watch(struct inode *inode);
void rem_file_unlock(struct rem_file *file);
void rem_file_forget_pages(struct rem_file *file, u64 before_epoch);
void rem_file_forget(struct rem_file *file);
bool rem_file_is_idle(const struct rem_file *file, unsigned long idle);
void rem_file_forget_idle(struct rem_file *file, unsigned long idle);
void rem_files_lock(void);
void rem_files_unlock(void);
struct rem_file *rem_files_next(unsigned long *cursor);
struct super_block *rem_unlinked_next(u64 before_epoch);
void rem_unlinked_forget(struct super_block *sb, u64 before_epoch);
void rem_unlinked_renew(struct super_block *sb, u64 epoch);
int rem_file_note_unwritten(struct rem_file *file);

/* fsync.c */
void rem_file_keep(struct rem_file *file);

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
