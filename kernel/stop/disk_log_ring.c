// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data of a disk's log: a ring of pages. All of them are allocated with the
 * table, so that no write waits for memory that only a write could free.
 */
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/gfp.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "disk_log.h"

/* A page that is copied to NVRAM next. */
static DEFINE_PER_CPU_ALIGNED(u8[PAGE_SIZE], rem_log_bounce);

/* Returns a page, or NULL. */
static struct page *rem_log_page(void)
{
	return alloc_page(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
}

/* Pages for a replay, as the data are in memory that has no struct page. */
static int rem_log_bounce_make(struct rem_log *log)
{
	u32 i;

	for (i = 0; i < REM_LOG_VECS; i++) {
		log->bounce[i] = rem_log_page();
		if (!log->bounce[i])
			return -ENOMEM;
	}
	return 0;
}

/**
 * rem_log_ring_make - allocate all pages of a log
 * @log: with its limit, and with @slots if it has a ring in NVRAM
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int rem_log_ring_make(struct rem_log *log)
{
	int err = 0;
	u32 i;

	if (!log->redo)
		log->slots = log->mib << (20 - PAGE_SHIFT);
	log->slot = kvcalloc(log->slots, sizeof(*log->slot), GFP_KERNEL);
	if (!log->slot)
		return -ENOMEM;
	if (log->redo)
		err = rem_log_bounce_make(log) ?: rem_log_behind_make(log);
	for (i = 0; !log->redo && !err && i < log->slots; i++) {
		log->slot[i].page = rem_log_page();
		err = log->slot[i].page ? 0 : -ENOMEM;
		cond_resched();
	}
	if (err)
		rem_log_ring_free(log);
	return err;
}

/** rem_log_ring_free - free all pages of a log. Context: process. */
void rem_log_ring_free(struct rem_log *log)
{
	u32 i;

	for (i = 0; i < log->slots && log->slot[i].page; i++)
		__free_page(log->slot[i].page);
	for (i = 0; i < REM_LOG_VECS && log->bounce[i]; i++)
		__free_page(log->bounce[i]);
	rem_log_behind_free(log);
	kvfree(log->slot);
	log->slot = NULL;
}

/* Copies up to a page of a bio from @iter on, which it advances. Returns how much. */
static u32 rem_log_gather(struct bio *bio, struct bvec_iter *iter, void *to)
{
	u32 bytes = 0;

	while (iter->bi_size && bytes < PAGE_SIZE) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);
		u32 part = min_t(u32, bv.bv_len, PAGE_SIZE - bytes);

		memcpy_from_page(to + bytes, bv.bv_page, bv.bv_offset, part);
		bio_advance_iter_single(bio, iter, part);
		bytes += part;
	}
	return bytes;
}

/*
 * The same, to NVRAM. The page may change meanwhile, but the checksum is of what is
 * there: so it is copied to a place in the caches first, or to @page.
 */
static u32 rem_log_keep_redo(struct rem_log *log, u64 at, struct bio *bio,
			     struct bvec_iter *iter, struct page *page)
{
	u64 sector = iter->bi_sector;
	u8 *bounce = get_cpu_var(rem_log_bounce);
	u8 *data = page ? page_address(page) : bounce;
	u32 bytes = rem_log_gather(bio, iter, data);

	rem_redo_keep(log->redo, at, sector, data, bytes);
	put_cpu_var(rem_log_bounce);
	return bytes;
}

/**
 * rem_log_keep - copy the data of a write
 * @log: the log
 * @at: the first of the slots that the write has taken
 * @bio: the write
 * @pages: for a second copy, one for each slot, or NULL; only with a ring of NVRAM
 *
 * The data are copied because a page may change as soon as its write completes.
 * The lock is not needed: nobody reads the slots of a write in flight, and a
 * replay waits for its completion.
 *
 * Context: any.
 */
void rem_log_keep(struct rem_log *log, u64 at, struct bio *bio,
		  struct page **pages)
{
	struct bvec_iter iter = bio->bi_iter;
	struct rem_log_slot *slot;

	for (; iter.bi_size; at++) {
		slot = rem_log_slot(log, at);
		slot->sector = iter.bi_sector;
		if (log->redo)
			slot->bytes = rem_log_keep_redo(log, at, bio, &iter,
							pages ? *pages++ : NULL);
		else
			slot->bytes = rem_log_gather(bio, &iter,
						     page_address(slot->page));
	}
	if (log->redo)
		rem_redo_fence();
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
	for (; slots--; at++) {
		rem_log_slot(log, at)->bytes = 0;
		if (log->redo)
			rem_redo_drop(log->redo, at);
	}
}

/* The page from which a position is written; @n: how many the request has already. */
static struct page *rem_log_source(struct rem_log *log, u64 at, u32 n)
{
	struct rem_log_slot *slot = rem_log_slot(log, at);

	if (!log->redo)
		return slot->page;
	memcpy(page_address(log->bounce[n]), rem_redo_data(log->redo, at),
	       slot->bytes);
	return log->bounce[n];
}

/* Writes adjacent slots as one request. Returns 0 or a negative errno. */
static int rem_log_write(struct rem_log *log, u64 *at)
{
	struct rem_log_slot *slot = rem_log_slot(log, *at);
	struct page *page;
	struct bio bio;
	u32 count = 0;
	int err;

	bio_init(&bio, log->dev->bdev, log->vecs, REM_LOG_VECS,
		 REQ_OP_WRITE | REQ_SYNC);
	bio.bi_iter.bi_sector = slot->sector;
	while (*at < log->tail && slot->bytes && count < REM_LOG_VECS &&
	       slot->sector == bio_end_sector(&bio)) {
		page = rem_log_source(log, *at, count++);
		if (bio_add_page(&bio, page, slot->bytes, 0) != slot->bytes)
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
