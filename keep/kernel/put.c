// SPDX-License-Identifier: GPL-2.0-only
/*
 * Held pages become pages of a process, with what they hold.
 *
 * The kernel lets drivers say which page becomes the anonymous page of an address
 * that has none yet: the migration to device memory does (mm/migrate_device.c,
 * migrate_vma_insert_page()). The page is charged, mapped and put on the LRU lists
 * by the same code as any other; nothing is copied.
 */
#include <linux/memcontrol.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "keep_range.h"
#include "rem_keep.h"

#define BATCH 512 /* pages that one call of migrate_vma_setup() covers */

/**
 * struct batch - pages at successive addresses of one mapping
 * @src: what is there, as migrate_vma_setup() finds it
 * @dst: what is put there
 * @entries: the pages
 * @count: how many
 */
struct batch {
	unsigned long src[BATCH];
	unsigned long dst[BATCH];
	struct rem_keep_entry entries[BATCH];
	u32 count;
};

/* A held page as if alloc_page() had returned it, locked, and with one reference more. */
static struct page *activate(u32 frame)
{
	struct page *page = keep_page(frame);

	__folio_clear_offline(page_folio(page));
	set_page_count(page, 1);
	adjust_managed_page_count(page, 1);
	get_page(page);
	lock_page(page);
	return page;
}

/* A page is at that address already: it gets the content. */
static int copy_to(struct task_struct *task, u64 vaddr, struct page *page)
{
	int done = access_process_vm(task, vaddr, page_address(page), PAGE_SIZE,
				     FOLL_WRITE | FOLL_FORCE);

	return done == PAGE_SIZE ? 0 : -EFAULT;
}

/* Where the mapping does not take pages, none is placed: all are to be copied. */
static void place(struct mm_struct *mm, struct batch *batch)
{
	u64 start = batch->entries[0].vaddr;
	struct migrate_vma migrate = {
		.src = batch->src,
		.dst = batch->dst,
		.start = start,
		.end = start + (u64)batch->count * PAGE_SIZE,
		.flags = MIGRATE_VMA_SELECT_SYSTEM,
	};
	int err;

	memset(batch->src, 0, sizeof(batch->src));
	memset(batch->dst, 0, sizeof(batch->dst));
	mmap_read_lock(mm);
	migrate.vma = find_vma(mm, start);
	err = !migrate.vma || migrate.vma->vm_start > start ||
			      migrate.vma->vm_end < migrate.end ?
		      -EFAULT :
		      migrate_vma_setup(&migrate);
	for (u32 i = 0; i < batch->count; i++) {
		struct page *page = activate(batch->entries[i].frame);

		/* An address that has a page is not replaced. */
		if (!err && (batch->src[i] & MIGRATE_PFN_MIGRATE) &&
		    !migrate_pfn_to_page(batch->src[i]))
			batch->dst[i] = migrate_pfn(page_to_pfn(page));
		else
			unlock_page(page);
	}
	if (!err) {
		migrate_vma_pages(&migrate);
		/* Of an address that was refused, this puts the page that was meant for it. */
		migrate_vma_finalize(&migrate);
	}
	mmap_read_unlock(mm);
}

static int put_batch(struct task_struct *task, struct mm_struct *mm,
		     struct batch *batch, struct rem_keep_put *put)
{
	int err = 0;

	place(mm, batch);
	for (u32 i = 0; i < batch->count; i++) {
		struct page *page = keep_page(batch->entries[i].frame);
		bool placed = batch->dst[i] &&
			      (batch->src[i] & MIGRATE_PFN_MIGRATE);

		if (placed)
			put->placed++;
		else if (!err)
			err = copy_to(task, batch->entries[i].vaddr, page);
		if (!placed && !err)
			put->copied++;
		/* Without a place the page is free after this. */
		if (!placed && !batch->dst[i])
			put_page(page);
		put_page(page);
	}
	return err;
}

/* The next entries that are at successive addresses, in one mapping. */
static int next_batch(struct mm_struct *mm,
		      const struct rem_keep_entry __user *from, u32 left,
		      struct batch *batch)
{
	struct rem_keep_entry *entries = batch->entries;
	struct vm_area_struct *vma;
	u64 start, end;
	u32 count = min_t(u32, left, BATCH);

	if (copy_from_user(entries, from, count * sizeof(*entries)))
		return -EFAULT;
	start = entries[0].vaddr;
	if (!IS_ALIGNED(start, PAGE_SIZE) || start >= TASK_SIZE_MAX)
		return -EINVAL;
	mmap_read_lock(mm);
	vma = find_vma(mm, start);
	end = vma && vma->vm_start <= start ? vma->vm_end : start + PAGE_SIZE;
	mmap_read_unlock(mm);
	for (u32 i = 0; i < count; i++) {
		u64 vaddr = start + (u64)i * PAGE_SIZE;

		if (entries[i].vaddr != vaddr || vaddr >= end) {
			count = i;
			break;
		}
	}
	batch->count = count;
	/* Also refuses a frame that is there twice: a page has one owner. */
	for (u32 i = 0; i < count; i++) {
		if (keep_is_held(entries[i].frame, 1)) {
			clear_bit(entries[i].frame, keep.held);
			continue;
		}
		while (i--)
			set_bit(entries[i].frame, keep.held);
		return -EBUSY;
	}
	return 0;
}

static int put_all(struct task_struct *task, struct mm_struct *mm,
		   struct rem_keep_put *put)
{
	const struct rem_keep_entry __user *from =
		u64_to_user_ptr(put->entries);
	struct batch *batch = kvmalloc(sizeof(*batch), GFP_KERNEL);
	int err = 0;

	if (!batch)
		return -ENOMEM;
	for (u32 done = 0; done < put->count && !err; done += batch->count) {
		err = fatal_signal_pending(current) ? -EINTR : 0;
		if (!err)
			err = next_batch(mm, from + done, put->count - done,
					 batch);
		if (!err)
			err = put_batch(task, mm, batch, put);
		cond_resched();
	}
	kvfree(batch);
	return err;
}

/**
 * keep_task_of() - the first thread of a process
 * @number: its number, as the caller knows it
 *
 * Return: a reference, or NULL.
 */
struct task_struct *keep_task_of(u32 number)
{
	struct pid *pid = find_get_pid(number);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);

	put_pid(pid);
	return task;
}

/**
 * keep_put() - give held pages to a process that does not run
 * @argument: see struct rem_keep_put
 *
 * Return: 0, -ESRCH without such a process, -EBUSY for a page that is not held,
 * -EINVAL for an address that no page has, -EFAULT for one that is not mapped.
 */
long keep_put(struct rem_keep_put __user *argument)
{
	struct rem_keep_put put;
	struct task_struct *task;
	struct mm_struct *mm;
	long err = -ESRCH;

	if (copy_from_user(&put, argument, sizeof(put)))
		return -EFAULT;
	put.placed = 0;
	put.copied = 0;
	task = keep_task_of(put.pid);
	if (!task)
		return err;
	mm = get_task_mm(task);
	if (mm) {
		err = put_all(task, mm, &put);
		mmput(mm);
	}
	put_task_struct(task);
	return copy_to_user(argument, &put, sizeof(put)) ? -EFAULT : err;
}
