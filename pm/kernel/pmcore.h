/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmcore: the region and its segments, for pmbc and pmramd.
 */
#ifndef PMCORE_H
#define PMCORE_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/rwsem.h>
#include <linux/wait.h>

#include "region.h"
#include "rem_pm_uapi.h"

/* A segment that somebody holds: it is not destroyed and does not move. */
struct pmcore_segment {
	u32 slot;
	void *at; /* for reading: writes go through pm_copy() and the like */
	struct pm_env *env; /* of what is written: NULL, or &pmcore_fof */
	phys_addr_t phys;
	u64 bytes;
	bool has_pages; /* struct page, as DAX needs */
	u32 type;
	u32 block_bytes;
	u8 uuid[16];
	char name[PM_NAME_BYTES];
};

/**
 * pmcore_get() - hold a segment
 * @name: its name
 * @mask: MAY_READ, MAY_WRITE: what the caller wants to be allowed
 * @segment: filled in
 *
 * Context: may sleep.
 * Return: 0, -ENOENT, -EACCES, -EUCLEAN.
 */
int pmcore_get(const char *name, int mask, struct pmcore_segment *segment);

/**
 * pmcore_put() - hold a segment no longer
 * @segment: what pmcore_get() filled in
 */
void pmcore_put(const struct pmcore_segment *segment);

/* For segments whose platform writes the caches back when the power fails. */
struct pm_env {
	u8 unused;
};

extern struct pm_env pmcore_fof;

/* For direct access; see window.c. */
void *pmcore_writable(const struct pmcore_segment *segment);
void pmcore_writable_end(const struct pmcore_segment *segment, void *at);

/**
 * pmcore_rebuild() - give a block segment another size, in another place
 * @name: of a segment of the caller's that nobody holds
 * @bytes: the size
 * @fill: makes the new content of the old one, with the region's lock held
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
};

struct pmcore {
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
	bool device_fof; /* the device's platform writes caches back */
	bool protected;
	atomic64_t events;
	wait_queue_head_t changed;
	char source[64];
};

extern struct pmcore pmcore;

bool pmcore_may(const struct rem_pm_segment *record, int mask);
bool pmcore_is_owner(const struct rem_pm_segment *record);
void pmcore_event(void);

int pmcore_source_get(void);
void pmcore_source_put(void);
bool pmcore_flush_on_fail(void);
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
void pmcore_ctl_exit(void);

int pmcore_dev_init(void);
void pmcore_dev_exit(void);
int pmcore_dev_add(u32 slot);
void pmcore_dev_remove(u32 slot);

#endif /* PMCORE_H */
