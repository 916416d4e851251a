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
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "dm-bio-record.h"
#include "stop.h"

/* Larger bios are split, so that each fits into the smallest log. */
#define REM_LOG_BIO_BYTES_MAX SZ_1M
/* Pages of one request of a replay; the disk's limits may split it. */
#define REM_LOG_VECS 64

struct rem_log_behind;

/**
 * struct rem_log_slot - up to one page of the data of a write
 * @page: the copy of the data; NULL: it is in the log's ring of NVRAM
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
 * @redo: the ring of NVRAM with the data, which a cold boot finds; or NULL
 * @bounce: pages for a replay from it
 * @behinds: all writes that can end at their copy at the same time; NULL without @redo
 * @mib: the limit, as given in the table
 * @vecs: of the request that @work is writing
 * @replayed_bytes: written again by @work, also in replays that a cut ended
 * @lock: protects the members that follow
 * @life: the value of rem.resumes for which log and disk are in step
 * @head: position of the oldest slot that no flush has covered
 * @tail: position of the next slot
 * @pending: writes in flight, oldest first
 * @copying: writes whose data are not in @redo yet, oldest first
 * @waiting: bios that have ended but for @covered
 * @done: behind the last write that has completed
 * @covered: position in NVRAM: a cold boot finds all that is before it
 * @early: flushes end when their writes are covered, without the disk
 * @behind: writes that have ended for their callers and are in flight
 * @idle: those of @behinds that are not
 * @drain: somebody waits for a flush of the disk
 * @drained: who does, or for @behind to be empty
 * @in_flight: number of bios in flight, of any kind
 * @held: bios that wait for a replay or for room
 * @held_count: number of bios in @held
 * @failed: a replay failed; all I/O ends with an error
 * @replays: number of replays
 * @flushes: number of flushes that the log issued to make room
 * @ended: number of flushes that ended without the disk
 * @ended_writes: number of writes that did
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
	struct rem_redo_ring *redo;
	struct page *bounce[REM_LOG_VECS];
	struct rem_log_behind *behinds;
	u32 mib;
	struct bio_vec vecs[REM_LOG_VECS];
	u64 replayed_bytes;

	/* Protects what follows. */
	spinlock_t lock;
	u32 life;
	u64 head;
	u64 tail;
	struct list_head pending;
	struct list_head copying;
	struct bio_list waiting;
	u64 done;
	u64 covered;
	bool early;
	struct list_head behind;
	struct list_head idle;
	bool drain;
	wait_queue_head_t drained;
	u32 in_flight;
	struct bio_list held;
	u32 held_count;
	bool failed;
	u64 replays;
	u64 flushes;
	u64 ended;
	u64 ended_writes;
};

/**
 * struct rem_log_io - state of a bio
 * @pending: entry of the log's list of writes, if @slots is not 0
 * @copying: entry of the log's list, if its data are to be in NVRAM
 * @saved: the bio as it came, to send it a second time
 * @opf: likewise
 * @at: of a write: its first slot
 * @oldest: the oldest write in flight when the bio was sent; a flush covers all
 *	before it
 * @slots: of a write: number of slots
 * @want: of a flush or FUA write: it ends when what is before is covered
 * @early: it needs no flush of the disk
 * @life: in which the bio was sent
 * @sent: whether the bio is in flight
 * @behind: a write ends at its copy, and this is in flight for it
 */
struct rem_log_io {
	struct list_head pending;
	struct list_head copying;
	struct dm_bio_details saved;
	blk_opf_t opf;
	u64 at;
	u64 oldest;
	u64 want;
	u32 slots;
	u32 life;
	bool early;
	bool sent;
	struct rem_log_behind *behind;
};

/* disk_log.c */
int rem_log_map(struct dm_target *ti, struct bio *bio);
int rem_log_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *status);
void rem_log_work(struct work_struct *work);
void rem_log_drain(struct rem_log *log);

/* disk_log_redo.c */
void rem_log_copy_begin(struct rem_log *log, struct rem_log_io *io);
void rem_log_copied(struct rem_log *log, struct rem_log_io *io);
bool rem_log_covers(struct rem_log *log, struct bio *bio, u64 want);
bool rem_log_ends_early(struct rem_log *log, struct bio *bio);
bool rem_log_wants_flush(const struct rem_log *log);
void rem_log_move_head(struct rem_log *log, u64 position);

/* disk_log_behind.c */
int rem_log_behind_make(struct rem_log *log);
void rem_log_behind_free(struct rem_log *log);
bool rem_log_behind_overlaps(const struct rem_log *log, struct bio *bio);
struct rem_log_io *rem_log_behind_take(struct rem_log *log, struct bio *bio,
				       u32 slots);
void rem_log_behind_write(struct rem_log *log, struct bio *bio);
void rem_log_behind_wait(struct rem_log *log);

/* disk_log_ring.c */
int rem_log_ring_make(struct rem_log *log);
void rem_log_ring_free(struct rem_log *log);
void rem_log_keep(struct rem_log *log, u64 at, struct bio *bio,
		  struct page **pages);
void rem_log_forget(struct rem_log *log, u64 at, u32 slots);
int rem_log_secure(struct rem_log *log, u32 life);

static inline struct rem_log_slot *rem_log_slot(struct rem_log *log, u64 at)
{
	return &log->slot[at % log->slots];
}

static inline bool rem_log_stale(const struct rem_log *log)
{
	return log->life != READ_ONCE(rem.resumes);
}

#endif /* REM_DISK_LOG_H */
