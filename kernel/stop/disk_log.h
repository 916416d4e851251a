/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The log of a disk whose write cache stays on: what its parts share.
 */
#ifndef REM_DISK_LOG_H
#define REM_DISK_LOG_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "dm-bio-record.h"
#include "stop.h"

/* A bio is split to this, so that each fits into the smallest log. */
#define REM_LOG_BIO_BYTES_MAX SZ_1M
/* Pages that one request writes again; the disk's limits may split it. */
#define REM_LOG_VECS 64

/**
 * struct rem_log_slot - up to a page of what a write wrote
 * @page: its copy
 * @sector: where it begins on the disk
 * @bytes: of it; 0: a write that failed, of which nothing is promised
 */
struct rem_log_slot {
	struct page *page;
	sector_t sector;
	u32 bytes;
};

/**
 * struct rem_log - the log of one disk
 * @ti: the target, until it is destroyed
 * @dev: the disk
 * @owner: what disks.c knows of it
 * @list: in the list of all logs
 * @queue: where @work runs: it must go on under memory pressure
 * @work: replays, makes room, and sends on what is held
 * @slot: the ring; position N is in slot N modulo @slots
 * @slots: in the ring
 * @mib: the limit, as it was asked for
 * @vecs: of the request that @work is writing
 * @replayed_bytes: written again by @work, also in replays that a cut ended
 * @lock: of all that follows
 * @life: the value of rem.resumes for which log and disk are in step
 * @head: position of the oldest slot that no flush has covered
 * @tail: position of the next slot
 * @pending: writes that have not come back, oldest first
 * @in_flight: bios of any kind that have not come back
 * @held: bios that wait for a replay or for room
 * @held_count: how many these are
 * @failed: the disk is not what was promised, and gives errors
 * @replays: how often log and disk were brought in step after Go
 * @flushes: the log's own, for room
 */
struct rem_log {
	struct dm_target *ti;
	struct dm_dev *dev;
	struct rem_disk_owner owner;
	struct list_head list;
	struct workqueue_struct *queue;
	struct work_struct work;
	struct rem_log_slot *slot;
	u32 slots;
	u32 mib;
	struct bio_vec vecs[REM_LOG_VECS];
	u64 replayed_bytes;

	/* Protects what follows. */
	spinlock_t lock;
	u32 life;
	u64 head;
	u64 tail;
	struct list_head pending;
	u32 in_flight;
	struct bio_list held;
	u32 held_count;
	bool failed;
	u64 replays;
	u64 flushes;
};

/**
 * struct rem_log_io - of each bio
 * @pending: in the log's list of writes, where @slots is not 0
 * @saved: the bio as it came, to be sent a second time
 * @opf: the same
 * @at: of a write its first slot; of others the oldest write that had not come
 *	back when it was sent, before which a flush covers all
 * @slots: of a write
 * @life: in which it was sent
 * @sent: whether it is with the disk
 */
struct rem_log_io {
	struct list_head pending;
	struct dm_bio_details saved;
	blk_opf_t opf;
	u64 at;
	u32 slots;
	u32 life;
	bool sent;
};

/* disk_log.c */
int rem_log_map(struct dm_target *ti, struct bio *bio);
int rem_log_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *status);
void rem_log_work(struct work_struct *work);

/* disk_log_ring.c */
int rem_log_ring_make(struct rem_log *log);
void rem_log_ring_free(struct rem_log *log);
void rem_log_keep(struct rem_log *log, u64 at, struct bio *bio);
void rem_log_forget(struct rem_log *log, u64 at, u32 slots);
int rem_log_secure(struct rem_log *log, u32 life);

static inline struct rem_log_slot *rem_log_slot(struct rem_log *log, u64 at)
{
	return &log->slot[at % log->slots];
}

#endif /* REM_DISK_LOG_H */
