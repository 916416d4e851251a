/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmcore: the region and its segments, for pmbc and pmramd.
 */
#ifndef PMCORE_H
#define PMCORE_H

#include <linux/badblocks.h>
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/jump_label.h>
#include <linux/notifier.h>
#include <linux/poll.h>
#include <linux/rwsem.h>
#include <linux/wait.h>

#include "fof.h"
#include "region.h"
#include "rem_pm_uapi.h"

#define PMCORE_CLAIM 0x10000 /* beside MAY_READ and the like */

/* A segment that somebody holds: it is not destroyed and does not move. */
struct pmcore_segment {
	u32 slot;
	void *at; /* for reading: writes go through pm_copy() and the like */
	struct pm_env *env; /* of what is written: &pmcore_fof for persist=fof, or NULL */
	phys_addr_t phys;
	u64 bytes;
	bool has_pages; /* struct page, as DAX needs */
	bool claimed; /* nobody else may write to it: it is a disk */
	u32 type;
	u32 block_bytes;
	u8 uuid[16];
	char name[PM_NAME_BYTES];
};

/**
 * pmcore_get() - hold a segment
 * @name: its name
 * @mask: MAY_READ, MAY_WRITE: what the caller wants to be allowed; PMCORE_CLAIM:
 *	nobody else may have it open for writing, as long as it is held
 * @segment: filled in
 *
 * Context: may sleep.
 * Return: 0, -ENOENT, -EACCES, -EUCLEAN, -EBUSY.
 */
int pmcore_get(const char *name, int mask, struct pmcore_segment *segment);

/**
 * pmcore_put() - hold a segment no longer
 * @segment: what pmcore_get() filled in
 */
void pmcore_put(const struct pmcore_segment *segment);

/*
 * For segments of persist=fof: stores may stay in the caches as long as the platform
 * promises to save these when the power fails.
 */
struct pm_env {
	u8 unused;
};

extern struct pm_env pmcore_fof;

/**
 * pmcore_promise_watch() - hear when that promise ends or returns
 * @holder: called, under RCU, with whether stores may stay in the caches: at once,
 *	and later, when the promise has ended, before what is there is written back
 *
 * Context: may sleep. Return: 0 or a negative errno.
 */
int pmcore_promise_watch(struct notifier_block *holder);

/**
 * pmcore_promise_unwatch() - undo pmcore_promise_watch()
 * @holder: what it was given
 */
void pmcore_promise_unwatch(struct notifier_block *holder);

/* What media has lost; see lost.c. Where it has lost nothing, it costs next to nothing. */
#ifdef PM_TESTS
DECLARE_STATIC_KEY_FALSE(pmcore_line_lost);
#define pmcore_has_lost_line() static_branch_unlikely(&pmcore_line_lost)
#else
#define pmcore_has_lost_line() false
#endif
size_t pmcore_readable_still(const void *from, size_t bytes);
const void *pmcore_media_left(const void *from, size_t bytes);
void pmcore_heal(const void *to, size_t bytes);

/* How much there is before the line that a test has lost. */
static inline size_t pmcore_readable(const void *from, size_t bytes)
{
	return pmcore_has_lost_line() ? pmcore_readable_still(from, bytes) :
					bytes;
}

/* Where to load from: @from, but for that line. */
static inline const void *pmcore_media(const void *from, size_t bytes)
{
	return pmcore_has_lost_line() ? pmcore_media_left(from, bytes) : from;
}

bool pmcore_lost_find(const void *from, size_t bytes);

/* For direct access; see window.c. */
void *pmcore_writable(const struct pmcore_segment *segment);
void pmcore_writable_end(const struct pmcore_segment *segment);

/**
 * pmcore_rebuild() - give a block segment another size, in another place
 * @name: of a segment of the caller's that nobody holds
 * @bytes: the size
 * @fill: makes the new content of the old one; nobody else changes the region
 * @context: for @fill
 *
 * Context: may sleep.
 * Return: 0, @fill's error, -ENOENT, -EPERM, -EBUSY, -EMEDIUMTYPE, -ENOSPC.
 */
int pmcore_rebuild(const char *name, u64 bytes, pm_fill fill, void *context);

/* Below: between the files of pmcore only. */

struct pmcore_slot {
	struct device *device; /* of /dev/pm/NAME */
	u32 users;
	u32 files; /* of them: of /dev/pm/NAME */
	u32 writers; /* of those: for writing */
	bool claimed; /* by one of them, PMCORE_CLAIM */
	bool lent;    /* its disk has direct access: pages of it are lent (window.c) */
	bool moving; /* its content is being copied elsewhere: nobody gets it */
	struct inode *inode; /* of its first open file: all map the same */
};

struct pmcore {
	/*
	 * Who changes a segment or the region: one at a time. @lock is taken inside, and
	 * given back while content is made, which takes time with its size.
	 */
	struct mutex changing;
	struct rw_semaphore lock; /* of all below */
	struct pm_region region;
	struct pmcore_slot *slot;
	void *region_memory;
	void *base;	 /* the mapping that is read, at the same address each boot or not */
	void *alias;	 /* the one that could be written: the same, or a second one */
	u64 bytes;	 /* of memory for the region, in either mapping */
	u64 asked_bytes; /* by pm=, for a new region */
	u64 limit_bytes; /* by pm=, for a region that grows */
	phys_addr_t phys;
	bool has_pages;
	bool protected;
	atomic64_t events;
	wait_queue_head_t changed;
	char source[64];
};

extern struct pmcore pmcore;

bool pmcore_may(const struct rem_pm_segment *record, int mask);
bool pmcore_is_owner(const struct rem_pm_segment *record);
void pmcore_event(void);
int pmcore_change_begin(void);
void pmcore_change_end(void);
int pmcore_lock_settled(u32 slot);

int pmcore_lost_init(void);
void pmcore_lost_exit(void);
ssize_t pmcore_lost_show(char *buf);

extern struct badblocks pmcore_lost;
void pmcore_lost_clear(const void *to, size_t bytes);
void pmcore_lost_unlist(const void *to, size_t bytes);

/* Sectors are about to be stored to: those that are listed are made good. May sleep. */
static inline void pmcore_lost_write(const void *to, size_t bytes)
{
	if (READ_ONCE(pmcore_lost.count))
		pmcore_lost_clear(to, bytes);
}

/* Sectors that were stored to are there again. */
static inline void pmcore_lost_written(const void *to, size_t bytes)
{
	if (pmcore_has_lost_line())
		pmcore_heal(to, bytes);
	if (READ_ONCE(pmcore_lost.count))
		pmcore_lost_unlist(to, bytes);
}

void pmcore_poison_import(struct badblocks *list);
void pmcore_poison_clear(u64 at, u64 bytes);

int pmcore_dirty_init(void);
void pmcore_dirty_exit(void);
u64 pmcore_dirty_written(void);
void pmcore_dirty_set(u32 slot, u64 page, u64 pages);
void pmcore_dirty_flush(struct address_space *mapping, u32 slot, u64 start,
			u64 bytes);

int pmcore_source_get(void);
void pmcore_source_put(void);
struct block_device *pmcore_source_bdev(void);
bool pmcore_source_saves(void);
int pmcore_source_watch(struct notifier_block *nb);
void pmcore_source_unwatch(struct notifier_block *nb);

extern struct pm_fof pmcore_promise;
bool pmcore_flush_on_fail(void);
void pmcore_promise_begin(void);
int pmcore_promise_init(void);
void pmcore_promise_exit(void);
void pmcore_settle(void);

/*
 * Whether a store may stay in the caches, to be asked before it and behind it: if the
 * answer is no then, flush it. Context: any.
 */
static inline bool pmcore_stays(const struct pm_env *env)
{
	return unlikely(env == &pmcore_fof) && pm_fof_kept(&pmcore_promise);
}

struct pm_env *pmcore_env(u32 slot);

int pmcore_protect(void);
void pmcore_unprotect(void);
void *pmcore_window_open(void *to, size_t *bytes);
void pmcore_window_close(void *at, size_t bytes);
void pmcore_window_store64(void *to, u64 value);
u64 pmcore_windows_opened(void);

extern const struct attribute_group *pmcore_region_groups[];
extern const struct attribute_group *pmcore_segment_groups[];

int pmcore_ctl_init(void);
void pmcore_ctl_promise_changed(void);
void pmcore_ctl_exit(void);

int pmcore_dev_init(void);
void pmcore_dev_exit(void);
int pmcore_dev_add(u32 slot);
void pmcore_dev_remove(u32 slot);

#endif /* PMCORE_H */
