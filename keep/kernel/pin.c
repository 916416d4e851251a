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
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "keep_range.h"
#include "rem_keep.h"

#define BATCH PTRS_PER_PTE

/**
 * struct batch - pages at successive addresses
 * @pages: with a reference each; NULL for an address that has none
 * @frames: where they are
 */
struct batch {
	struct page *pages[BATCH];
	u32 frames[BATCH];
};

/* The entry of the page table of @vaddr, which an ordinary mapping has. */
static pmd_t *pmd_of(struct mm_struct *mm, u64 vaddr, u64 end)
{
	struct vm_area_struct *vma = find_vma(mm, vaddr);
	pgd_t *pgd;
	p4d_t *p4d;
	pud_t *pud;

	if (!vma || vaddr < vma->vm_start || end > vma->vm_end ||
	    vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP | VM_HUGETLB))
		return NULL;
	pgd = pgd_offset(mm, vaddr);
	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, vaddr);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return NULL;
	pud = pud_offset(p4d, vaddr);
	if (pud_none(*pud) || pud_bad(*pud))
		return NULL;
	return pmd_offset(pud, vaddr);
}

static struct page *refer_one(pte_t entry)
{
	struct page *page;

	if (!pte_present(entry) || pte_special(entry))
		return NULL;
	page = pte_page(entry);
	get_page(page);
	return page;
}

/*
 * All of a page table's pages under one lock, which is several times faster than
 * one by one. False if this is no such case. As pte_offset_map_lock() does it.
 */
static bool refer_table(struct mm_struct *mm, u64 vaddr, u32 count,
			struct page **pages)
{
	pmd_t *pmd = pmd_of(mm, vaddr, vaddr + count * PAGE_SIZE);
	bool is_same = false;
	spinlock_t *lock; /* of all entries of that page table */
	pmd_t value;
	pte_t *pte;

	if (!pmd)
		return false;
	/* A page table that is given up meanwhile stays memory until then. */
	rcu_read_lock();
	value = pmdp_get_lockless(pmd);
	if (pmd_present(value) && !pmd_leaf(value) && !pmd_bad(value)) {
		pte = pte_offset_kernel(&value, vaddr);
		lock = pte_lockptr(mm, &value);
		spin_lock(lock);
		is_same = pmd_same(value, pmdp_get_lockless(pmd));
		for (u32 i = 0; is_same && i < count; i++)
			pages[i] = refer_one(ptep_get(pte + i));
		spin_unlock(lock);
	}
	rcu_read_unlock();
	return is_same;
}

/* Nothing is made or read from a disk for it: an absent page is an absent one. */
static void refer(struct mm_struct *mm, u64 vaddr, u32 count,
		  struct page **pages)
{
	int locked = 1;
	u32 done = 0;

	mmap_read_lock(mm);
	if (refer_table(mm, vaddr, count, pages))
		done = count;
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

/* Stores to user memory one by one: large copies are slow on some CPUs. */
static int tell(struct rem_keep_entry __user *to, u64 vaddr, u32 pid,
		const u32 *frames, u32 count)
{
	if (!user_write_access_begin(to, count * sizeof(*to)))
		return -EFAULT;
	for (u32 i = 0; i < count; i++) {
		unsafe_put_user(vaddr + i * PAGE_SIZE, &to[i].vaddr, fault);
		unsafe_put_user(frames[i], &to[i].frame, fault);
		unsafe_put_user(pid, &to[i].pid, fault);
	}
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

/* Until the end of a page table. */
static u32 batch_at(u64 vaddr, u32 count)
{
	return min_t(u32, count, BATCH - (vaddr >> PAGE_SHIFT) % BATCH);
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

		count = batch_at(vaddr, pin->count - done);
		refer(mm, vaddr, count, batch->pages);
		for (u32 i = 0; i < count; i++) {
			u32 frame = pin_one(batch->pages[i]);

			batch->frames[i] = frame;
			pin->elsewhere += frame == REM_KEEP_ELSEWHERE;
		}
		if (fatal_signal_pending(current))
			err = -EINTR;
		else
			err = tell(to + done, vaddr, pin->pid, batch->frames,
				   count);
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
