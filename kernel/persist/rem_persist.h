/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * remanence.persist=: what existing kernel files call. Without the parameter each is
 * one jump label that is not taken.
 */
#ifndef _LINUX_REM_PERSIST_H
#define _LINUX_REM_PERSIST_H

#include <linux/jump_label.h>
#include <linux/types.h>

struct file;
struct inode;
struct page;
struct super_block;

#ifdef CONFIG_REMANENCE_PERSIST

DECLARE_STATIC_KEY_FALSE(rem_persist_key);

int __rem_persist_fsync(struct file *file, loff_t start, loff_t end,
			int datasync);
bool __rem_persist_sync_range(struct file *file, loff_t start, loff_t end);
void __rem_persist_store(struct page *page, size_t offset, size_t bytes);
int __rem_persist_drain(struct inode *inode, struct file *file);
void __rem_persist_changed(struct inode *inode);
void __rem_persist_unlinked(struct inode *inode);
void __rem_persist_replaces(struct inode *inode);
void __rem_persist_leave(struct super_block *sb);
void __rem_persist_synced(void);
bool __rem_persist_keeps(struct inode *inode);

static inline bool rem_persist_used(void)
{
	return static_branch_unlikely(&rem_persist_key);
}

/* Before a program's bytes go into pages of a file, of one locked folio. */
static inline void rem_persist_store(struct page *page, size_t offset,
				     size_t bytes)
{
	if (static_branch_unlikely(&rem_persist_key))
		__rem_persist_store(page, offset, bytes);
}

/* Before a file changes by other ways than its page cache. */
static inline int rem_persist_drain(struct inode *inode, struct file *file)
{
	if (static_branch_unlikely(&rem_persist_key))
		return __rem_persist_drain(inode, file);
	return 0;
}

/* After a file has changed by more than its page cache has. */
static inline void rem_persist_changed(struct inode *inode)
{
	if (static_branch_unlikely(&rem_persist_key))
		__rem_persist_changed(inode);
}

/* Before a file gets the name of another one. */
static inline void rem_persist_replaces(struct inode *inode)
{
	if (static_branch_unlikely(&rem_persist_key))
		__rem_persist_replaces(inode);
}

/* After a name of a file is gone, before the caller's reference is. */
static inline void rem_persist_unlinked(struct inode *inode)
{
	if (static_branch_unlikely(&rem_persist_key))
		__rem_persist_unlinked(inode);
}

/* After the last sync of a file system, before it is unmounted. */
static inline void rem_persist_leave(struct super_block *sb)
{
	if (static_branch_unlikely(&rem_persist_key))
		__rem_persist_leave(sb);
}

/* After all of a file system, or of all of them, has been written: sync(2), syncfs(2). */
static inline void rem_persist_synced(void)
{
	if (static_branch_unlikely(&rem_persist_key))
		__rem_persist_synced();
}

/* Whether periodic write-back is to leave a file alone. */
static inline bool rem_persist_keeps(struct inode *inode)
{
	if (static_branch_unlikely(&rem_persist_key))
		return __rem_persist_keeps(inode);
	return false;
}

#else

static inline bool rem_persist_used(void)
{
	return false;
}

static inline int __rem_persist_fsync(struct file *file, loff_t start,
				      loff_t end, int datasync)
{
	return 0;
}

static inline bool __rem_persist_sync_range(struct file *file, loff_t start,
					    loff_t end)
{
	return false;
}

static inline void rem_persist_store(struct page *page, size_t offset,
				     size_t bytes)
{
}

static inline int rem_persist_drain(struct inode *inode, struct file *file)
{
	return 0;
}

static inline void rem_persist_changed(struct inode *inode) { }

static inline void rem_persist_replaces(struct inode *inode) { }

static inline void rem_persist_unlinked(struct inode *inode) { }

static inline void rem_persist_leave(struct super_block *sb) { }

static inline void rem_persist_synced(void) { }

static inline bool rem_persist_keeps(struct inode *inode)
{
	return false;
}

#endif /* CONFIG_REMANENCE_PERSIST */

#endif /* _LINUX_REM_PERSIST_H */
