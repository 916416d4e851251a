// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the pages of a frozen process are, and that they stay there.
 *
 * A page that somebody refers to is neither migrated nor given to anybody else,
 * also if it is unmapped meanwhile. So what is found here is where the content is
 * until the reference is given up, whatever the kernel does with its memory.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "keep_range.h"
#include "rem_keep.h"

#define BATCH 512

/**
 * struct batch - pages at successive addresses
 * @pages: with a reference each; NULL for an address that has none
 * @entries: what is found of them
 */
struct batch {
	struct page *pages[BATCH];
	struct rem_keep_entry entries[BATCH];
};

/* Nothing is made or read from a disk for it: an absent page is an absent one. */
static void refer(struct mm_struct *mm, u64 vaddr, u32 count,
		  struct page **pages)
{
	int locked = 1;
	u32 done = 0;

	mmap_read_lock(mm);
	while (done < count) {
		long got = get_user_pages_remote(mm, vaddr + done * PAGE_SIZE,
						 count - done,
						 FOLL_FORCE | FOLL_NOFAULT,
						 pages + done, &locked);

		if (got > 0)
			done += got;
		else
			pages[done++] = NULL;
		if (!locked)
			mmap_read_lock(mm);
		locked = 1;
	}
	mmap_read_unlock(mm);
}

/* A page has one owner: the first that asks for it. */
static u32 pin_one(struct page *page)
{
	u32 frame;

	if (!page)
		return REM_KEEP_ELSEWHERE;
	if (keep_frame_of(page, &frame) && !test_and_set_bit(frame, keep.pinned))
		return frame;
	put_page(page);
	return REM_KEEP_ELSEWHERE;
}

static int pin_all(struct mm_struct *mm, struct rem_keep_pin *pin)
{
	struct rem_keep_entry __user *to = u64_to_user_ptr(pin->entries);
	struct batch *batch = kvmalloc(sizeof(*batch), GFP_KERNEL);
	int err = 0;
	u32 count;

	if (!batch)
		return -ENOMEM;
	for (u32 done = 0; done < pin->count && !err; done += count) {
		u64 vaddr = pin->vaddr + done * PAGE_SIZE;

		count = min_t(u32, pin->count - done, BATCH);
		refer(mm, vaddr, count, batch->pages);
		for (u32 i = 0; i < count; i++) {
			struct rem_keep_entry *entry = &batch->entries[i];

			entry->vaddr = vaddr + i * PAGE_SIZE;
			entry->frame = pin_one(batch->pages[i]);
			entry->pid = pin->pid;
			pin->elsewhere += entry->frame == REM_KEEP_ELSEWHERE;
		}
		if (fatal_signal_pending(current))
			err = -EINTR;
		else if (copy_to_user(to + done, batch->entries,
				      count * sizeof(*to)))
			err = -EFAULT;
		cond_resched();
	}
	kvfree(batch);
	return err;
}

/**
 * keep_pin() - find pages of a process that does not run, and keep them in place
 * @argument: see struct rem_keep_pin
 *
 * Return: 0, -ESRCH without such a process, -EINVAL for addresses that no process
 * has, -EFAULT, -EINTR. What was pinned before an error stays so.
 */
long keep_pin(struct rem_keep_pin __user *argument)
{
	struct rem_keep_pin pin;
	struct task_struct *task;
	struct mm_struct *mm;
	long err = -ESRCH;

	if (copy_from_user(&pin, argument, sizeof(pin)))
		return -EFAULT;
	if (!IS_ALIGNED(pin.vaddr, PAGE_SIZE) || pin.vaddr >= TASK_SIZE_MAX ||
	    pin.count > (TASK_SIZE_MAX - pin.vaddr) >> PAGE_SHIFT)
		return -EINVAL;
	pin.elsewhere = 0;
	task = keep_task_of(pin.pid);
	if (!task)
		return err;
	mm = get_task_mm(task);
	if (mm) {
		err = pin_all(mm, &pin);
		mmput(mm);
	}
	put_task_struct(task);
	return copy_to_user(argument, &pin, sizeof(pin)) ? -EFAULT : err;
}

/**
 * keep_unpin() - all pages may be moved again
 *
 * Return: 0.
 */
long keep_unpin(void)
{
	unsigned long frame;

	for_each_set_bit(frame, keep.pinned, keep.pages) {
		clear_bit(frame, keep.pinned);
		put_page(keep_page(frame));
		if (!(frame % 1024))
			cond_resched();
	}
	return 0;
}
