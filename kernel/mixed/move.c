// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages change their place: up, from NVRAM into a frame of DRAM, and down, to the home
 * that they have kept. Both are the kernel's migration to and from device memory
 * (mm/migrate_device.c), so page tables, reverse mappings and charges are its own.
 *
 * A clean frame is a page that no process has for itself (PageAnonExclusive), as after
 * fork(): no page-table entry of it is or becomes writable before the kernel asks
 * rem_mixed_may_write(), in wp_can_reuse_anon_folio(). So it does not matter by which
 * of the many ways a page becomes writable: all of them need an exclusive page.
 */
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/string.h>

#include "mixed.h"

#define CREATE_TRACE_POINTS
#include "rem_dram_trace.h"

/*
 * Take the pages of a range out of use, and @fill a place for each. Where it returns
 * false, nothing has changed. migrate_vma_finalize() follows.
 */
static bool begin(struct migrate_vma *migrate, struct rem_move *move,
		  struct vm_area_struct *vma, unsigned long start,
		  unsigned int pages, unsigned long (*fill)(unsigned long src))
{
	unsigned int i;

	migrate->vma = vma;
	migrate->start = start;
	migrate->end = start + (unsigned long)pages * PAGE_SIZE;
	migrate->src = move->src;
	migrate->dst = move->dst;
	migrate->pgmap_owner = rem_frames_owner();
	if (migrate_vma_setup(migrate))
		return false;
	for (i = 0; i < migrate->npages; i++)
		move->dst[i] = fill(move->src[i]);
	migrate_vma_pages(migrate);
	return true;
}

/* A page that moves up gets a frame with its content. */
static unsigned long fill_frame(unsigned long src)
{
	struct page *page = migrate_pfn_to_page(src), *frame;

	/* What was looked at may be gone, and a page of a file in its place. */
	if (!(src & MIGRATE_PFN_MIGRATE) || !page || !PageAnon(page) ||
	    PageKsm(page))
		return 0;
	frame = rem_frame_take(page, NULL);
	if (!frame)
		return 0;
	copy_page(page_address(frame), page_address(page));
	/* Programs that could write the page can write the frame, without a fault. */
	if (!rem_new_is_allowed() || !rem_frame_soil(frame)) {
		rem_frame_give_back(frame);
		return 0;
	}
	return migrate_pfn(page_to_pfn(frame));
}

static void settle_up(unsigned long src, unsigned long dst)
{
	struct page *page = migrate_pfn_to_page(src);
	struct page *frame = migrate_pfn_to_page(dst);

	if (!frame)
		return;
	if (src & MIGRATE_PFN_MIGRATE) {
		/* It stays allocated, and nobody else knows it. */
		get_page(page);
		rem_heat_moved(page, frame);
		/* migrate_vma_finalize() drops its own. */
		get_page(frame);
	} else {
		rem_frame_cleaned(frame);
		rem_frame_leave(frame);
	}
}

/**
 * rem_move_up - move pages to DRAM
 * @move: room for the call
 * @vma: where they are mapped
 * @start: address of the first one
 * @pages: how many; at most REM_MOVE_MAX
 *
 * Pages that are pinned, locked or not anonymous stay where they are, and so do all that
 * find no frame.
 *
 * Context: process, with the mmap lock.
 */
void rem_move_up(struct rem_move *move, struct vm_area_struct *vma,
		 unsigned long start, unsigned int pages)
{
	struct migrate_vma migrate = { .flags = MIGRATE_VMA_SELECT_SYSTEM };
	unsigned int i, moved = 0;

	if (!begin(&migrate, move, vma, start, pages, fill_frame))
		return;
	for (i = 0; i < migrate.npages; i++)
		settle_up(move->src[i], move->dst[i]);
	migrate_vma_finalize(&migrate);
	for (i = 0; i < migrate.npages; i++) {
		struct page *frame = migrate_pfn_to_page(move->dst[i]);

		if (!frame || !(move->src[i] & MIGRATE_PFN_MIGRATE))
			continue;
		/* Migration entries are gone, which tell by it what they count as. */
		migrate_pfn_to_page(move->src[i])->mapping = NULL;
		trace_dram_promote(move->src[i] >> MIGRATE_PFN_SHIFT, page_to_pfn(frame),
				   move->reason);
		rem_frame_clean(frame, move->reason);
		put_page(frame);
		moved++;
	}
	atomic64_add(moved, &rem_mixed_counts.promoted);
}

/**
 * rem_move_up_one - move one page to DRAM
 * @vma: where it is mapped
 * @addr: the address there
 *
 * Context: as rem_move_up().
 */
void rem_move_up_one(struct vm_area_struct *vma, unsigned long addr)
{
	unsigned long src = 0, dst = 0;
	struct rem_move move = {
		.src = &src,
		.dst = &dst,
		.reason = REM_DRAM_USE,
	};

	rem_move_up(&move, vma, addr, 1);
}

/*
 * Whether a page that was taken out of use may leave its frame. Migration allows one reference
 * more than ours: that of who has just allocated the frame, and is about to map it, or of who
 * may still write to it.
 */
static bool may_leave(struct page *frame)
{
	if (!PageAnon(frame) || folio_ref_count(page_folio(frame)) != 1)
		return false;
	smp_rmb(); /* the content after the count */
	return rem_frame_home(frame);
}

/* A page that moves down finds its content at home, or brings it. */
static unsigned long fill_home(unsigned long src)
{
	struct page *frame = migrate_pfn_to_page(src), *home;

	/* By its number it may be another's by now. */
	if (!(src & MIGRATE_PFN_MIGRATE) || !frame || !may_leave(frame))
		return 0;
	home = rem_frame_home(frame);
	if (PageHWPoison(home) || !trylock_page(home))
		return 0;
	if (rem_frame_is_dirty(frame)) {
		copy_page(page_address(home), page_address(frame));
		atomic64_inc(&rem_mixed_counts.copied);
	}
	return migrate_pfn(page_to_pfn(home));
}

/* One that could not move is mapped again, and may be written: it stays dirty. */
static void settle_down(unsigned long src, unsigned long *dst,
			enum rem_dram_reason why)
{
	struct page *frame = migrate_pfn_to_page(src);
	struct page *home = migrate_pfn_to_page(*dst);

	if (!home)
		return;
	if (src & MIGRATE_PFN_MIGRATE) {
		trace_dram_demote(page_to_pfn(home), page_to_pfn(frame), why);
		rem_heat_moved(frame, home);
		rem_frame_cleaned(frame);
		rem_frame_leave(frame);
		return;
	}
	unlock_page(home);
	*dst = 0;
}

/**
 * rem_move_down - move pages from DRAM to their homes
 * @move: room for the call
 * @vma: where they are mapped
 * @start: address of the first one
 * @pages: how many; at most REM_MOVE_MAX
 *
 * Context: process, with the mmap lock.
 */
void rem_move_down(struct rem_move *move, struct vm_area_struct *vma,
		   unsigned long start, unsigned int pages)
{
	struct migrate_vma migrate = { .flags = MIGRATE_VMA_SELECT_DEVICE_COHERENT };
	unsigned int i, moved = 0;

	if (!begin(&migrate, move, vma, start, pages, fill_home))
		return;
	for (i = 0; i < migrate.npages; i++) {
		settle_down(move->src[i], &move->dst[i], move->reason);
		if (move->dst[i])
			moved++;
	}
	migrate_vma_finalize(&migrate);
	atomic64_add(moved, &rem_mixed_counts.demoted);
}

/*
 * What finds the mappings of a page, with a reference: without the lock of a process it may end
 * with the last one. NULL: nobody has the page mapped.
 */
static struct anon_vma *get_anon_vma_of(struct page *frame)
{
	struct anon_vma *found;

	if (!get_page_unless_zero(frame))
		return NULL;
	found = folio_get_anon_vma(page_folio(frame));
	put_page(frame);
	return found;
}

/**
 * rem_move_down_one - move one page from DRAM to its home, wherever it is mapped
 * @frame: in use or not; the caller has no reference
 *
 * Context: process.
 */
void rem_move_down_one(struct page *frame)
{
	struct anon_vma *anon_vma = get_anon_vma_of(frame);
	unsigned long src = 0, dst;

	if (!anon_vma)
		return;
	migrate_device_range(&src, page_to_pfn(frame), 1);
	dst = fill_home(src);
	migrate_device_pages(&src, &dst, 1);
	settle_down(src, &dst, REM_DRAM_ROOM);
	if (dst)
		atomic64_inc(&rem_mixed_counts.demoted);
	migrate_device_finalize(&src, &dst, 1);
	put_anon_vma(anon_vma);
}

/* A page that moves to another level gets a frame there, with its content. */
static unsigned long fill_other(unsigned long src, unsigned int level)
{
	struct page *from = migrate_pfn_to_page(src), *to;

	/* As in fill_home(). */
	if (!(src & MIGRATE_PFN_MIGRATE) || !from || !may_leave(from))
		return 0;
	to = rem_frame_take_beside(from, level);
	if (!to)
		return 0;
	copy_page(page_address(to), page_address(from));
	/* Until the old one is clean, a Stop copies both home: nobody can write to either. */
	if (rem_frame_is_dirty(from) && !rem_frame_soil(to)) {
		rem_frame_give_back(to);
		return 0;
	}
	return migrate_pfn(page_to_pfn(to));
}

static void settle_other(unsigned long src, unsigned long dst)
{
	struct page *from = migrate_pfn_to_page(src), *to = migrate_pfn_to_page(dst);

	if (!to)
		return;
	if (src & MIGRATE_PFN_MIGRATE) {
		trace_dram_level(page_to_pfn(rem_frame_home(to)), page_to_pfn(to),
				 REM_DRAM_SCAN);
		rem_heat_moved(from, to);
		rem_frame_hand_over(from, to);
		swap(from, to);
		atomic64_inc(&rem_mixed_counts.sorted);
	}
	/* The one that has not got the page, or has no more. */
	rem_frame_cleaned(to);
	rem_frame_leave(to);
}

/**
 * rem_move_over - move one page to a frame of another level, wherever it is mapped
 * @frame: which it has; in use or not; the caller has no reference
 * @level: where it goes
 *
 * Context: process.
 * Return: whether it has moved.
 */
bool rem_move_over(struct page *frame, unsigned int level)
{
	struct anon_vma *anon_vma = get_anon_vma_of(frame);
	unsigned long src = 0, dst;
	bool moved;

	if (!anon_vma)
		return false;
	migrate_device_range(&src, page_to_pfn(frame), 1);
	dst = fill_other(src, level);
	migrate_device_pages(&src, &dst, 1);
	settle_other(src, dst);
	moved = dst && src & MIGRATE_PFN_MIGRATE;
	migrate_device_finalize(&src, &dst, 1);
	put_anon_vma(anon_vma);
	return moved;
}

/* One that has just come has the same content: a store to NVRAM takes longer than to look. */
static void copy_if_other(struct page *home, struct page *frame)
{
	if (memcmp(page_address(home), page_address(frame), PAGE_SIZE))
		copy_page(page_address(home), page_address(frame));
}

/*
 * Whether nobody but those who map a frame, and the caller, has a reference of it. A fork
 * in between changes both counts.
 */
static bool is_only_mapped(struct folio *folio)
{
	int refs = folio_ref_count(folio);

	smp_rmb(); /* one order on each side of the other count */
	if (folio_mapcount(folio) + 1 != refs)
		return false;
	smp_rmb(); /* the same */
	return folio_ref_count(folio) == refs;
}

/* Of one mapping of a frame: nobody can write by it, or it stays as it is. */
static bool protect(struct folio *folio, struct vm_area_struct *vma,
		    unsigned long address, void *arg)
{
	/* A new page is mapped, by its count, before its entry is there. */
	DEFINE_FOLIO_VMA_WALK(walk, folio, vma, address, PVMW_SYNC);
	struct mmu_notifier_range range;
	bool *all = arg;

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, address,
				address + PAGE_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	while (page_vma_mapped_walk(&walk)) {
		bool exclusive = PageAnonExclusive(&folio->page);
		pte_t pte = ptep_get(walk.pte);

		if (!pte_write(pte) && !exclusive) {
			/* fork() flushes late: another thread may still write. */
			flush_tlb_page(vma, walk.address);
			continue;
		}
		/* As in mm/ksm.c: a fast get_user_pages() is either seen or fails. */
		pte = ptep_clear_flush(vma, walk.address, walk.pte);
		if (!is_only_mapped(folio) ||
		    (exclusive &&
		     folio_try_share_anon_rmap_pte(folio, &folio->page)))
			*all = false;
		else
			pte = pte_wrprotect(pte);
		set_pte_at(vma->vm_mm, walk.address, walk.pte, pte);
	}
	mmu_notifier_invalidate_range_end(&range);
	return *all;
}

/**
 * rem_frame_clean - copy a dirty frame home, and keep it
 * @frame: in use; the caller has a reference
 * @why: for tracepoints
 *
 * The next store to it is a fault. A frame that a device or another task uses just now
 * stays dirty.
 *
 * Context: process.
 */
void rem_frame_clean(struct page *frame, enum rem_dram_reason why)
{
	struct folio *folio = page_folio(frame);
	bool all = true;
	struct rmap_walk_control walk = { .rmap_one = protect, .arg = &all };
	struct page *home;

	if (!folio_trylock(folio))
		return;
	home = rem_frame_home(frame);
	if (home && folio_test_anon(folio) && rem_frame_is_dirty(frame)) {
		rmap_walk(folio, &walk);
		/* Who shares it reads it, or has a reference. */
		all &= is_only_mapped(folio);
		if (all) {
			copy_if_other(home, frame);
			rem_frame_cleaned(frame);
			atomic64_inc(&rem_mixed_counts.cleaned);
			trace_dram_clean(page_to_pfn(home), page_to_pfn(frame), why);
		}
	}
	folio_unlock(folio);
}

/**
 * rem_mixed_write - the first store to a frame since it was clean
 * @folio: a page of device memory; locked, mapped once
 *
 * Return: false if the program has to get a copy in NVRAM.
 */
bool rem_mixed_write(struct folio *folio)
{
	if (folio->page.pgmap->owner != rem_frames_owner())
		return true;
	atomic64_inc(&rem_mixed_counts.written);
	if (rem_frame_soil(&folio->page))
		return true;
	atomic64_inc(&rem_mixed_counts.over);
	return false;
}
