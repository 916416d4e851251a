// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data of a disk's log: a ring of pages. All of them are allocated with the
 * table, so that no write waits for memory that only a write could free.
 */
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/gfp.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "disk_log.h"

/**
 * rem_log_ring_make - allocate all pages of a log
 * @log: with its limit
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int rem_log_ring_make(struct rem_log *log)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
	u32 i;

	log->slots = log->mib << (20 - PAGE_SHIFT);
	log->slot = kvcalloc(log->slots, sizeof(*log->slot), GFP_KERNEL);
	if (!log->slot)
		return -ENOMEM;
	for (i = 0; i < log->slots; i++) {
		log->slot[i].page = alloc_page(gfp);
		if (!log->slot[i].page) {
			rem_log_ring_free(log);
			return -ENOMEM;
		}
		cond_resched();
	}
	return 0;
}

/** rem_log_ring_free - free all pages of a log. Context: process. */
void rem_log_ring_free(struct rem_log *log)
{
	u32 i;

	for (i = 0; i < log->slots && log->slot[i].page; i++)
		__free_page(log->slot[i].page);
	kvfree(log->slot);
	log->slot = NULL;
}

/**
 * rem_log_keep - copy the data of a write
 * @log: the log
 * @at: the first of the slots that the write has taken
 * @bio: the write
 *
 * The data are copied because a page may change as soon as its write completes.
 * The lock is not needed: nobody reads the slots of a write in flight, and a
 * replay waits for its completion.
 *
 * Context: any.
 */
void rem_log_keep(struct rem_log *log, u64 at, struct bio *bio)
{
	sector_t sector = bio->bi_iter.bi_sector;
	struct rem_log_slot *slot = NULL;
	struct bvec_iter iter;
	struct bio_vec bv;
	u32 done, part;

	bio_for_each_segment(bv, bio, iter) {
		for (done = 0; done < bv.bv_len; done += part) {
			if (!slot || slot->bytes == PAGE_SIZE) {
				slot = rem_log_slot(log, at++);
				slot->sector = sector;
				slot->bytes = 0;
				sector += PAGE_SECTORS;
			}
			part = min_t(u32, bv.bv_len - done,
				     PAGE_SIZE - slot->bytes);
			memcpy_page(slot->page, slot->bytes, bv.bv_page,
				    bv.bv_offset + done, part);
			slot->bytes += part;
		}
	}
}

/**
 * rem_log_forget - drop the data of a write that failed
 * @log: the log, locked
 * @at: its first slot
 * @slots: number of its slots
 *
 * Context: any.
 */
void rem_log_forget(struct rem_log *log, u64 at, u32 slots)
{
	while (slots--)
		rem_log_slot(log, at++)->bytes = 0;
}

/* Writes adjacent slots as one request. Returns 0 or a negative errno. */
static int rem_log_write(struct rem_log *log, u64 *at)
{
	struct rem_log_slot *slot = rem_log_slot(log, *at);
	struct bio bio;
	int err;

	bio_init(&bio, log->dev->bdev, log->vecs, REM_LOG_VECS,
		 REQ_OP_WRITE | REQ_SYNC);
	bio.bi_iter.bi_sector = slot->sector;
	while (*at < log->tail && slot->bytes &&
	       slot->sector == bio_end_sector(&bio)) {
		if (bio_add_page(&bio, slot->page, slot->bytes, 0) !=
		    slot->bytes)
			break;
		slot = rem_log_slot(log, ++*at);
	}
	log->replayed_bytes += bio.bi_iter.bi_size;
	err = submit_bio_wait(&bio);
	bio_uninit(&bio);
	return err;
}

/**
 * rem_log_secure - bring the content of the log to media
 * @log: the log; if its life is not @life, no bio is in flight and none is sent
 * @life: the life that the caller saw; the result is valid only if it is still
 *	the same afterwards
 *
 * If the disk's cache has been powered all the time, a flush is enough.
 * Otherwise all slots are written again. Each request waits for the one before
 * it: they may overlap, and then the last one is right. Meanwhile media may have
 * an older state of a sector; nobody reads it, and if the power fails again, the
 * next replay starts from the beginning.
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int rem_log_secure(struct rem_log *log, u32 life)
{
	u64 at = log->head;
	int err = 0;

	if (life != log->life)
		while (!err && at < log->tail &&
		       life == READ_ONCE(rem.resumes)) {
			if (rem_log_slot(log, at)->bytes)
				err = rem_log_write(log, &at);
			else
				at++;
		}
	return err ?: blkdev_issue_flush(log->dev->bdev);
}
