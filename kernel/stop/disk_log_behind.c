// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: writes that end at their copy
 *
 * Where flushes end in memory (disk_log_redo.c), so do writes that somebody waits for:
 * when its copy is in NVRAM a write has all that a disk with a write cache promises, and
 * FUA what it promises as soon as `covered` has passed it. Its caller goes on, and may
 * change its pages. So a copy goes to the disk, from pages of the log.
 *
 * Until the disk has answered, the write is in flight as any other (disk_log.c): it keeps
 * its slots, and no flush that is sent meanwhile covers it. Besides:
 *
 *  - Nothing that overlaps it is sent: a read would miss it, and the disk may write two
 *    requests in any order. Such bios are held.
 *  - When flushes cease to end in memory, all these writes complete before the flush that
 *    rem_log_drain() waits for.
 *  - A write of an old life is forgotten when the disk has answered: nobody waits for it,
 *    and the replay has it.
 *  - An error has nobody to be told to. The copy is kept, and all I/O fails from now on.
 *
 * Pages are allocated with the log. A write for which there are none waits for the disk.
 */
#include <linux/bio-integrity.h>
#include <linux/blk-crypto.h>
#include <linux/blkdev.h>
#include <linux/gfp.h>
#include <linux/slab.h>
#include "disk_log.h"

#define REM_LOG_BEHIND_WRITES 64
#define REM_LOG_BEHIND_PAGES 8

/**
 * struct rem_log_behind - a write that has ended for its caller
 * @list: in the log's @behind, or in its @idle
 * @log: whose it is
 * @io: its state, as of a bio of the log
 * @begin: of its sectors
 * @end: of its sectors
 * @pages: its data
 * @vecs: of @bio
 * @bio: what the disk gets
 */
struct rem_log_behind {
	struct list_head list;
	struct rem_log *log;
	struct rem_log_io io;
	sector_t begin;
	sector_t end;
	struct page *pages[REM_LOG_BEHIND_PAGES];
	struct bio_vec vecs[REM_LOG_BEHIND_PAGES];
	struct bio bio;
};

/**
 * rem_log_behind_free - free what rem_log_behind_make() has allocated
 * @log: nothing is in flight
 *
 * Context: process.
 */
void rem_log_behind_free(struct rem_log *log)
{
	u32 i, n;

	for (n = 0; log->behinds && n < REM_LOG_BEHIND_WRITES; n++)
		for (i = 0; i < REM_LOG_BEHIND_PAGES; i++)
			if (log->behinds[n].pages[i])
				__free_page(log->behinds[n].pages[i]);
	kvfree(log->behinds);
	log->behinds = NULL;
}

/**
 * rem_log_behind_make - allocate what writes need to end early
 * @log: with a ring of NVRAM
 *
 * Context: process.
 * Return: 0 or -ENOMEM; then rem_log_behind_free() has to be called.
 */
int rem_log_behind_make(struct rem_log *log)
{
	u32 i, n;

	log->behinds = kvcalloc(REM_LOG_BEHIND_WRITES, sizeof(*log->behinds),
				GFP_KERNEL);
	if (!log->behinds)
		return -ENOMEM;
	for (n = 0; n < REM_LOG_BEHIND_WRITES; n++) {
		struct rem_log_behind *one = &log->behinds[n];

		for (i = 0; i < REM_LOG_BEHIND_PAGES; i++) {
			one->pages[i] = alloc_page(GFP_KERNEL | __GFP_NORETRY |
						   __GFP_NOWARN);
			if (!one->pages[i])
				return -ENOMEM;
		}
		one->log = log;
		list_add(&one->list, &log->idle);
	}
	return 0;
}

/**
 * rem_log_behind_overlaps - whether a bio has to wait for a write that has ended
 * @log: the log, locked
 * @bio: not yet sent
 *
 * Return: true if it does; the completion of that write queues the log's work.
 */
bool rem_log_behind_overlaps(const struct rem_log *log, struct bio *bio)
{
	const struct rem_log_behind *one;

	if (!bio_has_data(bio))
		return false;
	list_for_each_entry(one, &log->behind, list)
		if (bio->bi_iter.bi_sector < one->end &&
		    one->begin < bio_end_sector(bio))
			return true;
	return false;
}

/**
 * rem_log_behind_take - let a write end at its copy, if it may
 * @log: the log, locked
 * @bio: about to be sent
 * @slots: how many it needs
 *
 * Return: its state, to be used instead of that of @bio, or NULL.
 */
struct rem_log_io *rem_log_behind_take(struct rem_log *log, struct bio *bio,
				       u32 slots)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct rem_log_behind *one;

	io->behind = NULL;
	if (!log->early || !slots || slots > REM_LOG_BEHIND_PAGES ||
	    !(io->opf & (REQ_SYNC | REQ_FUA)) || bio_integrity(bio) ||
	    bio_has_crypt_ctx(bio))
		return NULL;
	one = list_first_entry_or_null(&log->idle, struct rem_log_behind, list);
	if (!one)
		return NULL;
	list_move(&one->list, &log->behind);
	one->begin = bio->bi_iter.bi_sector;
	one->end = bio_end_sector(bio);
	one->io.opf = io->opf;
	io->behind = one;
	return &one->io;
}

/* The disk has answered. Context: any. */
static void rem_log_behind_end(struct bio *bio)
{
	struct rem_log_behind *one = bio->bi_private;
	struct rem_log *log = one->log;
	bool failed = bio->bi_status != BLK_STS_OK;
	blk_status_t status = bio->bi_status;
	unsigned long flags;

	bio_uninit(bio);
	spin_lock_irqsave(&log->lock, flags);
	failed &= one->io.life == READ_ONCE(rem.resumes);
	log->failed |= failed;
	log->in_flight--;
	list_del(&one->io.pending);
	list_move(&one->list, &log->idle);
	if (failed)
		pr_err("remanence: %s has failed a write that had ended in memory, all I/O fails from now on: %d\n",
		       log->owner.disk->disk_name,
		       blk_status_to_errno(status));
	if (!bio_list_empty(&log->held) || log->drain || rem_log_stale(log))
		queue_work(log->queue, &log->work);
	/* Under the lock: who waits may free the log. */
	wake_up(&log->drained);
	spin_unlock_irqrestore(&log->lock, flags);
}

static void rem_log_behind_send(struct rem_log_behind *one, blk_opf_t opf)
{
	struct rem_log *log = one->log;
	u32 i;

	bio_init(&one->bio, log->dev->bdev, one->vecs, REM_LOG_BEHIND_PAGES,
		 opf & ~(REQ_FUA | REQ_PREFLUSH | REQ_NOWAIT | REQ_POLLED));
	one->bio.bi_iter.bi_sector = one->begin;
	one->bio.bi_end_io = rem_log_behind_end;
	one->bio.bi_private = one;
	for (i = 0; i < one->io.slots; i++)
		__bio_add_page(&one->bio, one->pages[i],
			       rem_log_slot(log, one->io.at + i)->bytes, 0);
	submit_bio_noacct(&one->bio);
}

/**
 * rem_log_behind_write - copy a write, let it end, and send the copy to the disk
 * @log: the log
 * @bio: a write for which rem_log_behind_take() has found room
 *
 * Context: process; does not sleep.
 */
void rem_log_behind_write(struct rem_log *log, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct rem_log_behind *one = io->behind;
	blk_opf_t opf = io->opf;
	bool ended = true;

	rem_log_keep(log, one->io.at, bio, one->pages);
	rem_log_copied(log, &one->io);
	spin_lock_irq(&log->lock);
	log->done = max(log->done, one->io.want);
	log->ended_writes++;
	if (op_is_flush(opf))
		ended = rem_log_covers(log, bio, one->io.want);
	spin_unlock_irq(&log->lock);
	if (ended)
		bio_endio(bio);
	/* What it was may be gone. */
	rem_log_behind_send(one, opf);
}

/**
 * rem_log_behind_wait - wait until the disk has all writes that have ended
 * @log: the log; no write ends early any more
 *
 * Context: process.
 */
void rem_log_behind_wait(struct rem_log *log)
{
	spin_lock_irq(&log->lock);
	wait_event_lock_irq(log->drained, list_empty(&log->behind), log->lock);
	spin_unlock_irq(&log->lock);
}
