// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: the log of a disk whose write cache stays on
 *
 * Invariant 10 for a disk whose cache dies with the power (disks.c), without
 * switching that cache off. The device mapper's target `remanence-log` lies
 * above the disk, keeps a copy of each write in memory, which is non-volatile
 * here and part of the image, until a flush has covered it, and writes it again
 * after Go. A cold boot has no log, and what it finds on the disk is what an
 * ordinary crash leaves: flushes are the disk's own, none is left out.
 *
 * rem.resumes tells one life of the machine from the next: Go raises it before
 * any device runs. The disk's driver issues again what was in flight, to a disk
 * whose cache is empty; so only what began and ended in the same life is
 * believed. What did not is sent again, whatever it was, after the replay:
 *
 *  - A bio is sent under the lock, in a life for which log and disk are in step,
 *    and counted. No CPU is parked with a spinlock held, so the check and the
 *    count are of one life. Where Stop parks the task right after it, the bio
 *    is one in flight like any other.
 *  - Its end compares lives, again under the lock. Another life: it is held.
 *  - In a new life every new bio is held, and the replay waits until none of the
 *    old life is with the disk: an old write cannot come after it. They come
 *    back by themselves, since the driver needs none of ours for that.
 *  - During the replay nothing else is with the disk, and the log does not
 *    change. It is left as it is until a flush of the same life is done; a cut
 *    in between means to begin again.
 *  - A write that was in flight is in the log and is sent again all the same,
 *    after the replay and so in order: its caller has not heard of it yet.
 *
 * The log is a ring in the order of sending, and only its oldest part is ever
 * dropped: an older write must not outlive a newer one to the same place, or a
 * replay would bring it back. A flush covers what is older than the oldest
 * write that was with the disk when the flush was sent. The order of writes
 * that overlap and are in flight together is nobody's promise, with a log as
 * without.
 *
 * A write for which there is no room is held, and the log flushes for itself.
 * rem_log_map() never waits: the bios that a task has yet to send may be what
 * it would wait for.
 */
#include <linux/blkdev.h>
#include "disk_log.h"

static bool rem_log_stale(const struct rem_log *log)
{
	return log->life != READ_ONCE(rem.resumes);
}

/* All before this position has come back. Context: locked. */
static u64 rem_log_oldest(const struct rem_log *log)
{
	const struct rem_log_io *io;

	io = list_first_entry_or_null(&log->pending, struct rem_log_io,
				      pending);
	return io ? io->at : log->tail;
}

/* Context: locked. Return: whether the bio may go to the disk now. */
static bool rem_log_admit(struct rem_log *log, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	u32 bytes = op_is_write(bio_op(bio)) ? bio->bi_iter.bi_size : 0;

	io->slots = DIV_ROUND_UP(bytes, PAGE_SIZE);
	if (rem_log_stale(log) ||
	    log->tail - log->head + io->slots > log->slots)
		return false;
	if (io->slots) {
		io->at = log->tail;
		log->tail += io->slots;
		list_add_tail(&io->pending, &log->pending);
	} else {
		io->at = rem_log_oldest(log);
	}
	io->life = log->life;
	io->sent = true;
	log->in_flight++;
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
		rem_log_keep(log, io->at, bio);
	bio_set_dev(bio, log->dev->bdev);
}

/**
 * rem_log_map - what the device mapper does with a bio
 * @ti: the target
 * @bio: a read, a write, or a flush without data
 *
 * Context: process; does not sleep. Return: DM_MAPIO_REMAPPED where it goes to
 * the disk, DM_MAPIO_SUBMITTED where it is held, DM_MAPIO_KILL.
 */
int rem_log_map(struct dm_target *ti, struct bio *bio)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct rem_log *log = ti->private;
	unsigned long flags;
	bool admitted;

	/* Others are not announced: their effect would not be in the log. */
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
	/* Whoever waits for room is not overtaken by another write. */
	admitted = (bio_list_empty(&log->held) || !bio_has_data(bio) ||
		    bio_op(bio) == REQ_OP_READ) &&
		   rem_log_admit(log, bio);
	if (!admitted)
		rem_log_hold(log, bio);
	spin_unlock_irqrestore(&log->lock, flags);

	if (!admitted)
		return DM_MAPIO_SUBMITTED;
	rem_log_prepare(log, bio);
	return DM_MAPIO_REMAPPED;
}

/**
 * rem_log_end_io - a bio has come back from the disk
 * @ti: the target
 * @bio: it
 * @status: what the disk said
 *
 * Context: any. Return: DM_ENDIO_DONE, or DM_ENDIO_INCOMPLETE where it will be
 * sent again.
 */
int rem_log_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *status)
{
	struct rem_log_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct rem_log *log = ti->private;
	unsigned long flags;
	bool crossed;

	if (!io->sent) /* ended by the log itself */
		return DM_ENDIO_DONE;

	spin_lock_irqsave(&log->lock, flags);
	io->sent = false;
	log->in_flight--;
	if (io->slots)
		list_del(&io->pending);
	if (*status != BLK_STS_OK)
		rem_log_forget(log, io->at, io->slots);
	crossed = io->life != READ_ONCE(rem.resumes);
	if (crossed) {
		dm_bio_restore(&io->saved, bio);
		bio->bi_opf = io->opf;
		bio->bi_status = BLK_STS_OK;
		rem_log_hold(log, bio);
	} else {
		if (op_is_flush(io->opf) && !io->saved.bi_iter.bi_size &&
		    *status == BLK_STS_OK)
			log->head = max(log->head, io->at);
		/* There may be room now, or something that a flush would free. */
		if (!bio_list_empty(&log->held))
			queue_work(log->queue, &log->work);
	}
	spin_unlock_irqrestore(&log->lock, flags);
	return crossed ? DM_ENDIO_INCOMPLETE : DM_ENDIO_DONE;
}

/*
 * Bring log and disk in step again after Go, or flush for room.
 *
 * Returns whether it did something. If not, bios have to come back first; the
 * last of a past life is then held, and any write that ends looks for held ones,
 * so that both call the work again.
 */
static bool rem_log_catch_up(struct rem_log *log)
{
	bool stale, failed = false;
	u32 life;
	u64 mark;
	int err;

	spin_lock_irq(&log->lock);
	life = READ_ONCE(rem.resumes);
	stale = life != log->life;
	mark = rem_log_oldest(log);
	if (stale ? log->in_flight : mark == log->head) {
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
			log->head = max(log->head, mark);
		log->life = life;
		log->replays += stale;
		log->flushes += !stale;
	}
	spin_unlock_irq(&log->lock);
	if (failed)
		pr_err("remanence: the log of %s cannot be written to it, which gives errors from now on: %pe\n",
		       log->owner.disk->disk_name, ERR_PTR(err));
	return true;
}

/**
 * rem_log_work - replay, make room, send on what is held, as far as possible
 * @work: of the log
 *
 * Context: process, one at a time. Return: nothing.
 */
void rem_log_work(struct work_struct *work)
{
	struct rem_log *log = container_of(work, struct rem_log, work);
	bool failed, admitted, more;
	struct bio *bio;

	do {
		spin_lock_irq(&log->lock);
		failed = log->failed;
		bio = bio_list_peek(&log->held);
		admitted = bio && !failed && rem_log_admit(log, bio);
		more = bio || (!failed && rem_log_stale(log));
		if (admitted || (bio && failed)) {
			bio_list_pop(&log->held);
			log->held_count--;
		}
		spin_unlock_irq(&log->lock);

		if (admitted) {
			rem_log_prepare(log, bio);
			submit_bio_noacct(bio);
		} else if (bio && failed) {
			bio_io_error(bio);
		} else if (more) {
			more = rem_log_catch_up(log);
		}
	} while (more);
}
