// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: a log whose flushes end in memory
 *
 * With remanence.persist_redo= the copies of a log are in NVRAM that also a cold boot
 * finds (persist/redo.c, rem_redo.h). It writes them to the disk before anybody reads it
 * (persist/redo_disks.c). So a flush has what it promises as soon as the copies of all
 * writes that have completed are there:
 *
 *	write	copy to slots, write back, fence; send; complete with the disk
 *	flush	wait until all slots before are copied, store `covered`, write back, fence
 *	FUA	sent as a plain write; after it as a flush
 *
 * A write that somebody waits for ends without the disk, too (disk_log_behind.c).
 *
 * `covered` is a prefix. Another CPU may still copy an older write; then the flush is put
 * on a list, and ends with that copy. Nothing waits for the disk's cache.
 *
 * This is so in each state of persist/state.c, also for a flush that the disk has
 * answered: a redo must not bring back what is older than something that was promised,
 * and it ends at `covered`. Only while fsync may end in memory (rem_logs_early()) is the
 * disk's own flush left out. When that ceases, the disk is flushed (rem_log_drain()).
 *
 * `head` follows the flushes that the disk has answered, with the rule of the log: it has
 * what is older than the oldest write in flight when the flush was sent. It is in NVRAM
 * before a slot is used again. The log flushes when it is half full.
 */
#include <linux/blkdev.h>
#include "disk_log.h"

/* All slots before this position are in NVRAM. Context: locked. */
static u64 rem_log_prefix(struct rem_log *log)
{
	const struct rem_log_io *io;

	io = list_first_entry_or_null(&log->copying, struct rem_log_io, copying);
	return io ? io->at : log->tail;
}

/* Context: locked. Returns whether what is before @want is promised. */
static bool rem_log_publish(struct rem_log *log, u64 want)
{
	u64 prefix = rem_log_prefix(log);

	if (log->covered < want && log->covered < prefix) {
		rem_redo_cover(log->redo, prefix);
		log->covered = prefix;
	}
	return log->covered >= want;
}

/** rem_log_copy_begin - a write has got its slots. Context: locked. */
void rem_log_copy_begin(struct rem_log *log, struct rem_log_io *io)
{
	if (log->redo)
		list_add_tail(&io->copying, &log->copying);
}

/**
 * rem_log_copied - the data of a write are in its slots
 * @log: the log, with a ring of NVRAM; not locked
 * @io: of the write
 *
 * Context: the CPU that has copied has fenced.
 */
void rem_log_copied(struct rem_log *log, struct rem_log_io *io)
{
	struct bio_list ended = BIO_EMPTY_LIST, still = BIO_EMPTY_LIST;
	unsigned long flags;
	struct bio *bio;

	spin_lock_irqsave(&log->lock, flags);
	list_del(&io->copying);
	while ((bio = bio_list_pop(&log->waiting))) {
		struct rem_log_io *other = dm_per_bio_data(bio, sizeof(*other));

		bio_list_add(rem_log_publish(log, other->want) ? &ended : &still,
			     bio);
	}
	log->waiting = still;
	spin_unlock_irqrestore(&log->lock, flags);
	if (bio_list_empty(&ended))
		return;
	wake_up(&log->drained);
	while ((bio = bio_list_pop(&ended)))
		bio_endio(bio);
}

/**
 * rem_log_covers - whether a flush or FUA write may end
 * @log: the log, locked
 * @bio: with nothing else to wait for
 * @want: what is before that position has to be promised
 *
 * Return: true, or false: it ends later, and its owner must not touch it any more.
 */
bool rem_log_covers(struct rem_log *log, struct bio *bio, u64 want)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));

	if (!log->redo || rem_log_publish(log, want))
		return true;
	io->want = want;
	bio_list_add(&log->waiting, bio);
	return false;
}

/**
 * rem_log_ends_early - whether a bio is a flush that does not go to the disk
 * @log: the log, locked
 * @bio: not yet sent
 *
 * Return: true if it is.
 */
bool rem_log_ends_early(struct rem_log *log, struct bio *bio)
{
	return log->early && op_is_flush(bio->bi_opf) && !bio_has_data(bio) &&
	       !rem_log_stale(log);
}

/**
 * rem_log_wants_flush - whether the log is to flush although no write waits for room
 * @log: the log, locked
 *
 * Return: true if it is.
 */
bool rem_log_wants_flush(const struct rem_log *log)
{
	return log->drain ||
	       (log->redo && log->tail - log->head > log->slots / 2);
}

/**
 * rem_log_move_head - the disk has all that is before a position
 * @log: the log, locked
 * @position: of a flush that the disk has answered
 */
void rem_log_move_head(struct rem_log *log, u64 position)
{
	if (position <= log->head)
		return;
	/* In NVRAM before a slot is used again. */
	if (log->redo)
		rem_redo_advance(log->redo, position);
	log->head = position;
}

/* Whether nobody is told of a flush any more that the disk has not answered. */
static bool rem_log_drained(struct rem_log *log)
{
	bool drained;

	spin_lock_irq(&log->lock);
	drained = log->failed ||
		  (!log->drain && bio_list_empty(&log->waiting));
	spin_unlock_irq(&log->lock);
	return drained;
}

/**
 * rem_log_drain - bring all that was promised to media
 * @log: its flushes do not end early any more
 *
 * Context: process.
 */
void rem_log_drain(struct rem_log *log)
{
	spin_lock_irq(&log->lock);
	log->drain = true;
	spin_unlock_irq(&log->lock);
	queue_work(log->queue, &log->work);
	wait_event(log->drained, rem_log_drained(log));
}
