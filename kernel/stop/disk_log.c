// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: the log of a disk whose write cache stays on
 *
 * Keeps invariant 10 for a disk with a volatile write cache (disks.c) without
 * switching that cache off. The device mapper target `remanence-log` lies above
 * the disk. It keeps a copy of each write in memory, which is non-volatile and
 * part of the image, until a flush has covered the write, and writes the copies
 * again after Go. A cold boot has no log; it finds on the disk what an ordinary
 * crash leaves, since the target passes every flush on.
 *
 * rem.resumes numbers the lives of the machine: Go raises it before any device
 * runs. The disk's driver issues requests that were in flight again, to a disk
 * whose cache is empty. So a completion counts only in the life in which its
 * bio was sent; any other bio is sent again after the replay:
 *
 *  - A bio is sent under the lock, in a life in which log and disk are in step,
 *    and counted. No CPU is parked while it holds a spinlock, so the check and
 *    the count belong to one life. A task that Stop parks just after that has a
 *    bio in flight like any other.
 *  - Its completion compares lives, again under the lock. If they differ, the
 *    bio is held.
 *  - In a new life every new bio is held, and the replay waits until no bio of
 *    an old life is in flight, so that no old write can follow it. Those bios
 *    complete without the log's help.
 *  - During the replay the disk has no other request and the log does not
 *    change. Its content is kept until a flush of the same life has completed;
 *    after a cut in between, the replay begins again.
 *  - A write that was in flight is in the log; it is sent again nevertheless,
 *    after the replay and so in order, since its caller still waits for it.
 *
 * The log is a ring in the order of sending, and only its oldest part is ever
 * dropped: if an older write stayed in it longer than a newer one to the same
 * place, a replay would bring the older one back. A flush covers what is older
 * than the oldest write in flight when the flush was sent, alone or with a write
 * (REQ_PREFLUSH). The order of overlapping writes that are in flight together is
 * undefined, with a log as without one.
 *
 * A write for which there is no room is held, and the log issues a flush.
 * rem_log_map() never waits: it might wait for bios that the same task has yet
 * to send.
 */
#include <linux/blkdev.h>
#include "disk_log.h"

/* All writes before this position have completed. Context: locked. */
static u64 rem_log_oldest(struct rem_log *log)
{
	const struct rem_log_io *io;

	io = list_first_entry_or_null(&log->pending, struct rem_log_io,
				      pending);
	return io ? io->at : log->tail;
}

/* Context: locked. Return: whether the bio may go to the disk now. */
static bool rem_log_admit(struct rem_log *log, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io)), *own;
	u32 bytes = op_is_write(bio_op(bio)) ? bio->bi_iter.bi_size : 0;
	u32 slots = DIV_ROUND_UP(bytes, PAGE_SIZE);

	if (rem_log_stale(log) ||
	    log->tail - log->head + slots > log->slots ||
	    rem_log_behind_overlaps(log, bio))
		return false;
	own = rem_log_behind_take(log, bio, slots);
	io->sent = !own;
	own = own ?: io;
	own->slots = slots;
	own->oldest = rem_log_oldest(log);
	if (slots) {
		own->at = log->tail;
		log->tail += slots;
		list_add_tail(&own->pending, &log->pending);
		rem_log_copy_begin(log, own);
	}
	own->want = slots ? own->at + slots : log->done;
	own->early = log->early && op_is_flush(io->opf);
	if (own->early && (io->opf & REQ_PREFLUSH))
		log->ended++;
	own->life = log->life;
	log->in_flight++;
	if (rem_log_wants_flush(log))
		queue_work(log->queue, &log->work);
	return true;
}

/* Context: locked. */
static void rem_log_hold(struct rem_log *log, struct bio *bio)
{
	bio_list_add(&log->held, bio);
	log->held_count++;
	queue_work(log->queue, &log->work);
}

/* Context: the bio is admitted. */
static void rem_log_prepare(struct rem_log *log, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));

	if (io->slots)
		rem_log_keep(log, io->at, bio, NULL);
	if (io->slots && log->redo)
		rem_log_copied(log, io);
	if (io->early)
		bio->bi_opf &= ~(REQ_PREFLUSH | REQ_FUA);
	bio_set_dev(bio, log->dev->bdev);
}

enum rem_log_way {
	REM_LOG_SEND,
	REM_LOG_BEHIND,
	REM_LOG_HOLD,
	REM_LOG_END,
	REM_LOG_WAIT,
};

/* Context: locked. Returns what becomes of a bio that may go on. */
static enum rem_log_way rem_log_route(struct rem_log *log, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));

	if (rem_log_ends_early(log, bio)) {
		log->ended++;
		return rem_log_covers(log, bio, log->done) ? REM_LOG_END :
							     REM_LOG_WAIT;
	}
	if (!rem_log_admit(log, bio))
		return REM_LOG_HOLD;
	return io->behind ? REM_LOG_BEHIND : REM_LOG_SEND;
}

/**
 * rem_log_map - send a bio to the disk, or hold it
 * @ti: the target
 * @bio: a read, a write, which may ask for a flush before it, or a flush without data
 *
 * Context: process; does not sleep.
 * Return: DM_MAPIO_REMAPPED if the bio goes to the disk, DM_MAPIO_SUBMITTED if
 * it is held, DM_MAPIO_KILL on errors.
 */
int rem_log_map(struct dm_target *ti, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct rem_log *log = ti->private;
	enum rem_log_way way = REM_LOG_HOLD;
	unsigned long flags;

	/* The target announces no others: the log could not replay them. */
	if (bio_op(bio) != REQ_OP_READ && bio_op(bio) != REQ_OP_WRITE)
		return DM_MAPIO_KILL;
	dm_bio_record(&io->saved, bio);
	io->opf = bio->bi_opf;
	io->sent = false;

	spin_lock_irqsave(&log->lock, flags);
	if (log->failed) {
		spin_unlock_irqrestore(&log->lock, flags);
		return DM_MAPIO_KILL;
	}
	/* A write that waits for room is not overtaken by another one. */
	if (bio_list_empty(&log->held) || !bio_has_data(bio) ||
	    bio_op(bio) == REQ_OP_READ)
		way = rem_log_route(log, bio);
	if (way == REM_LOG_HOLD)
		rem_log_hold(log, bio);
	spin_unlock_irqrestore(&log->lock, flags);

	if (way == REM_LOG_END)
		bio_endio(bio);
	else if (way == REM_LOG_BEHIND)
		rem_log_behind_write(log, bio);
	if (way != REM_LOG_SEND)
		return DM_MAPIO_SUBMITTED;
	rem_log_prepare(log, bio);
	return DM_MAPIO_REMAPPED;
}

/*
 * Context: locked. Returns whether a bio has to be sent again: its disk has lost what it
 * had, or it was to end by its copy, and is not any more.
 */
static bool rem_log_again(const struct rem_log *log,
			  const struct rem_log_io *io, blk_status_t status)
{
	return io->life != READ_ONCE(rem.resumes) ||
	       (io->early && !log->early && status == BLK_STS_OK);
}

/*
 * A bio of this life has completed. Context: locked. Returns whether it has ended,
 * otherwise it does so later.
 */
static bool rem_log_completed(struct rem_log *log, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));

	log->done = max(log->done, io->slots ? io->want : 0);
	if (!op_is_flush(io->opf))
		return true;
	if (!io->early && (io->opf & REQ_PREFLUSH))
		rem_log_move_head(log, io->oldest);
	return rem_log_covers(log, bio, io->want);
}

/**
 * rem_log_end_io - complete a bio, or hold it to send it again
 * @ti: the target
 * @bio: the bio
 * @status: the disk's result
 *
 * Context: any.
 * Return: DM_ENDIO_DONE, or DM_ENDIO_INCOMPLETE if the bio will be sent again.
 */
int rem_log_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *status)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct rem_log *log = ti->private;
	unsigned long flags;
	bool again, ended = true;

	if (!io->sent) /* completed by the log itself */
		return DM_ENDIO_DONE;

	spin_lock_irqsave(&log->lock, flags);
	io->sent = false;
	log->in_flight--;
	if (io->slots)
		list_del(&io->pending);
	if (*status != BLK_STS_OK)
		rem_log_forget(log, io->at, io->slots);
	again = rem_log_again(log, io, *status);
	if (again) {
		dm_bio_restore(&io->saved, bio);
		bio->bi_opf = io->opf;
		bio->bi_status = BLK_STS_OK;
		rem_log_hold(log, bio);
	} else {
		if (*status == BLK_STS_OK)
			ended = rem_log_completed(log, bio);
		/* There may be room now, or a flush may make some. */
		if (!bio_list_empty(&log->held))
			queue_work(log->queue, &log->work);
	}
	spin_unlock_irqrestore(&log->lock, flags);
	return again || !ended ? DM_ENDIO_INCOMPLETE : DM_ENDIO_DONE;
}

/*
 * Brings log and disk in step again after Go, or flushes to make room.
 *
 * Returns whether it did anything. If not, bios have to complete first. The last
 * one of an old life is then held, and the completion of any write checks for
 * held bios; both queue the work again.
 */
static bool rem_log_catch_up(struct rem_log *log)
{
	bool stale, drain, failed = false;
	u32 life;
	u64 mark;
	int err;

	spin_lock_irq(&log->lock);
	life = READ_ONCE(rem.resumes);
	stale = life != log->life;
	drain = log->drain;
	mark = rem_log_oldest(log);
	if (stale ? log->in_flight :
	    drain ? !list_empty(&log->behind) : mark == log->head) {
		spin_unlock_irq(&log->lock);
		return false;
	}
	spin_unlock_irq(&log->lock);

	err = rem_log_secure(log, life);

	spin_lock_irq(&log->lock);
	if (life == READ_ONCE(rem.resumes)) {
		failed = err;
		log->failed |= failed;
		if (!failed)
			rem_log_move_head(log, mark);
		log->life = life;
		log->replays += stale;
		log->flushes += !stale;
		if (drain)
			log->drain = false;
	}
	spin_unlock_irq(&log->lock);
	wake_up(&log->drained);
	if (failed)
		pr_err("remanence: writing the log of %s to the disk failed, all I/O fails from now on: %pe\n",
		       log->owner.disk->disk_name, ERR_PTR(err));
	return true;
}

/* Takes a held bio that may go on, or NULL. Context: locked. Returns what becomes of it. */
static enum rem_log_way rem_log_next(struct rem_log *log, struct bio **ret_bio)
{
	struct bio *bio = bio_list_pop(&log->held);
	enum rem_log_way way = REM_LOG_HOLD;

	*ret_bio = bio;
	if (!bio)
		return REM_LOG_HOLD;
	/* It may be on another list now. */
	way = log->failed ? REM_LOG_END : rem_log_route(log, bio);
	if (way == REM_LOG_HOLD) {
		bio_list_add_head(&log->held, bio);
		*ret_bio = NULL;
	} else {
		log->held_count--;
	}
	return way;
}

/*
 * Context: locked; no held bio may go on. Returns whether the log is to do something
 * for them, or for itself.
 */
static bool rem_log_lacks(struct rem_log *log)
{
	struct bio *bio = bio_list_peek(&log->held);

	if (log->failed)
		return false;
	if (rem_log_stale(log) || rem_log_wants_flush(log))
		return true;
	/* A flush would not let it overtake what it overlaps. */
	return bio && !rem_log_behind_overlaps(log, bio);
}

/**
 * rem_log_work - replay, make room and send held bios, as far as possible
 * @work: of the log
 *
 * Context: process, one at a time.
 */
void rem_log_work(struct work_struct *work)
{
	struct rem_log *log = container_of(work, struct rem_log, work);
	enum rem_log_way way;
	bool failed, more;
	struct bio *bio;

	do {
		spin_lock_irq(&log->lock);
		failed = log->failed;
		way = rem_log_next(log, &bio);
		more = bio || rem_log_lacks(log);
		spin_unlock_irq(&log->lock);

		if (way == REM_LOG_SEND) {
			rem_log_prepare(log, bio);
			submit_bio_noacct(bio);
		} else if (way == REM_LOG_BEHIND) {
			rem_log_behind_write(log, bio);
		} else if (way == REM_LOG_END && failed) {
			bio_io_error(bio);
		} else if (way == REM_LOG_END) {
			bio_endio(bio);
		} else if (way == REM_LOG_HOLD && more) {
			more = rem_log_catch_up(log);
		}
	} while (more);
}
