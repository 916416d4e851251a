/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The log of a disk whose write cache stays on: shared by its files.
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

/* Larger bios are split, so that each fits into the smallest log. */
#define REM_LOG_BIO_BYTES_MAX SZ_1M
/* Pages of one request of a replay; the disk's limits may split it. */
#define REM_LOG_VECS 64

/**
 * struct rem_log_slot - up to one page of the data of a write
 * @page: the copy of the data
 * @sector: where they begin on the disk
 * @bytes: their size; 0: the write failed and is not replayed
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
 * @owner: entry of the list in disks.c
 * @list: in the list of all logs
 * @queue: runs @work; it makes progress under memory pressure
 * @work: replays, makes room, and sends held bios
 * @slot: the ring; position N is in slot N modulo @slots
 * @slots: number of slots in the ring
 * @mib: the limit, as given in the table
 * @vecs: of the request that @work is writing
 * @replayed_bytes: written again by @work, also in replays that a cut ended
 * @lock: protects the members that follow
 * @life: the value of rem.resumes for which log and disk are in step
 * @head: position of the oldest slot that no flush has covered
 * @tail: position of the next slot
 * @pending: writes in flight, oldest first
 * @in_flight: number of bios in flight, of any kind
 * @held: bios that wait for a replay or for room
 * @held_count: number of bios in @held
 * @failed: a replay failed; all I/O ends with an error
 * @replays: number of replays
 * @flushes: number of flushes that the log issued to make room
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
 * struct rem_log_io - state of a bio
 * @pending: entry of the log's list of writes, if @slots is not 0
 * @saved: the bio as it came, to send it a second time
 * @opf: likewise
 * @at: of a write: its first slot; of others: the oldest write in flight when
 *	the bio was sent; a flush covers all before it
 * @slots: of a write: number of slots
 * @life: in which the bio was sent
 * @sent: whether the bio is in flight
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
