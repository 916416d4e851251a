// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that a checkpoint shares with the programs, which run on.
 *
 * A page of a frozen process whose page-table entries were made read-only (by
 * /proc/PID/clear_refs) is copied at the next store if somebody else refers to it
 * and it is not marked as the process's alone: as after fork(). So the checkpoint
 * keeps the old content, and only what changes costs a page.
 */
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "keep_range.h"
#include "rem_keep.h"

static int share_one(u32 frame)
{
	struct page *page = keep_page(frame);
	struct folio *folio = page_folio(page);

	if (test_bit(frame, keep.shared))
		return 0;
	if (keep_is_held(frame, 1) || !folio_try_get(folio))
		return -EBUSY;
	/* A device that writes to it would write to the checkpoint. */
	if (folio != page_folio(page) || !folio_test_anon(folio) ||
	    folio_maybe_dma_pinned(folio)) {
		folio_put(folio);
		return -EBUSY;
	}
	ClearPageAnonExclusive(page);
	set_bit(frame, keep.shared);
	return 0;
}

static int unshare_one(u32 frame)
{
	if (test_and_clear_bit(frame, keep.shared))
		put_page(keep_page(frame));
	return 0;
}

static long for_each(struct rem_keep_list __user *argument,
		     int (*call)(u32 frame))
{
	const struct rem_keep_entry __user *from;
	struct rem_keep_list list;
	int err = 0;

	if (copy_from_user(&list, argument, sizeof(list)))
		return -EFAULT;
	from = u64_to_user_ptr(list.entries);
	for (u32 i = 0; i < list.count && !err; i++) {
		u32 frame;

		if (get_user(frame, &from[i].frame))
			return -EFAULT;
		err = frame < keep.pages ? call(frame) : -EINVAL;
		cond_resched();
	}
	return err;
}

/**
 * keep_share() - pages of frozen processes belong to a checkpoint, too
 * @argument: see REM_KEEP_SHARE
 *
 * Return: 0, -EBUSY for a page that is no page of a process or that a device may
 * write to, -EINVAL for one outside of the range. Those before it are shared.
 */
long keep_share(struct rem_keep_list __user *argument)
{
	return for_each(argument, share_one);
}

/**
 * keep_unshare() - a checkpoint gives its pages up
 * @argument: see REM_KEEP_UNSHARE
 *
 * Return: 0, -EINVAL for a page outside of the range.
 */
long keep_unshare(struct rem_keep_list __user *argument)
{
	return for_each(argument, unshare_one);
}
