// SPDX-License-Identifier: GPL-2.0-only
/*
 * New anonymous pages begin in DRAM. Many of them live for a shorter time than a scan
 * needs to find that they are hot: those of a compiler, for example, whose processes end
 * after some tenths of a second.
 *
 * The home is a page of NVRAM as the kernel would have taken without us, and is not
 * written: the frame is dirty before anything is stored to it, and has all of the
 * content. So a page that ends before it has moved down, or was copied home, costs NVRAM
 * nothing. It goes the way of all other frames from then on.
 *
 * Where a huge page would have begun, small ones do, if those that will be used have room:
 * zeroing it in NVRAM, and splitting it when it turns out to be hot, costs more. How many
 * that are nobody knows; a process may be about to have as many again as it has.
 *
 * A new page takes no frame of those that a scan keeps free for pages that have become
 * hot, and none if too many frames differ from their homes. How many new pages there have
 * been at once, or would have been, decides how many frames hot ones leave to them (heat.c).
 */
#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/string.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>

#include "mixed.h"
#include "rem_dram_trace.h"

static bool is_allowed;

DEFINE_STATIC_CALL(rem_mixed_alloc, vma_alloc_folio_noprof);
DEFINE_STATIC_CALL(rem_mixed_add_lru, folio_add_lru_vma);
DEFINE_STATIC_CALL(rem_mixed_huge, do_huge_pmd_anonymous_page);

/* The same mappings as in a scan, which is what moves their pages down again. */
static bool may_begin(struct vm_area_struct *vma)
{
	return READ_ONCE(is_allowed) && !(vma->vm_flags & (VM_SPECIAL | VM_LOCKED)) &&
	       !vma_is_temporary_stack(vma) && !userfaultfd_armed(vma);
}

/**
 * rem_new_is_allowed - a page has taken a frame: whether it may stay there
 *
 * Context: any; the frame counts for rem_frames_used() already.
 */
bool rem_new_is_allowed(void)
{
	smp_mb(); /* with the one in rem_new_allow() */
	return READ_ONCE(is_allowed);
}

/* Return: NULL if the page has to be in NVRAM. */
static struct page *begin(struct page *home, struct mm_struct *mm, bool zero)
{
	struct page *frame = rem_frame_take(home, mm);

	if (!frame)
		return NULL;
	if (!rem_new_is_allowed() || !rem_frame_soil(frame)) {
		rem_frame_give_back(frame);
		return NULL;
	}
	/* What a Stop has copied home until now, Go brings back. */
	if (zero)
		clear_page(page_address(frame));
	rem_heat_began(frame);
	unlock_page(frame);
	atomic64_inc(&rem_mixed_counts.began);
	trace_dram_new(page_to_pfn(home), page_to_pfn(frame), REM_DRAM_FAULT);
	return frame;
}

/* A group that has all it may needs no room for new pages. */
static bool has_room(struct mm_struct *mm, unsigned int pages)
{
	return rem_group_has_room(mm, pages) && rem_heat_find_room(pages);
}

/* As vma_alloc_folio(), whose place it takes with memtype=mixed for anonymous pages. */
static struct folio *alloc(gfp_t gfp, int order, struct vm_area_struct *vma,
			   unsigned long addr, bool hugepage)
{
	bool zero = gfp & __GFP_ZERO;
	struct folio *home;
	struct page *frame;

	if (order || !may_begin(vma) || !has_room(vma->vm_mm, 1))
		return vma_alloc_folio_noprof(gfp, order, vma, addr, hugepage);
	home = vma_alloc_folio_noprof(gfp & ~__GFP_ZERO, 0, vma, addr, hugepage);
	if (!home)
		return NULL;
	frame = begin(&home->page, vma->vm_mm, zero);
	if (frame)
		return page_folio(frame);
	if (zero)
		clear_page(folio_address(home));
	return home;
}

/* Of a huge page of a process. */
#define USED_MIN 64ul

static unsigned int may_be_used(struct mm_struct *mm)
{
	return clamp(get_mm_counter(mm, MM_ANONPAGES), USED_MIN, REM_MOVE_MAX);
}

/* Frames are small pages, and the fault goes on with them. */
static vm_fault_t huge(struct vm_fault *vmf)
{
	struct mm_struct *mm = vmf->vma->vm_mm;

	if (may_begin(vmf->vma) && has_room(mm, may_be_used(mm)))
		return VM_FAULT_FALLBACK;
	return do_huge_pmd_anonymous_page(vmf);
}

/* No list of reclaim has frames. */
static void add_lru(struct folio *folio, struct vm_area_struct *vma)
{
	if (!folio_is_zone_device(folio))
		folio_add_lru_vma(folio, vma);
}

/**
 * rem_new_allow - whether new pages may begin in DRAM, and others come there
 * @allow: whether they may
 *
 * When this has returned, each page that comes in spite of it is counted by
 * rem_frames_used() already, if only until it has seen this.
 */
void rem_new_allow(bool allow)
{
	WRITE_ONCE(is_allowed, allow);
	smp_mb(); /* with the one in rem_new_is_allowed() */
}

/** rem_new_begin - from now on new pages begin in DRAM */
void __init rem_new_begin(void)
{
	/* In this order: frames must not come to the lists. */
	static_call_update(rem_mixed_add_lru, add_lru);
	static_call_update(rem_mixed_alloc, alloc);
	static_call_update(rem_mixed_huge, huge);
	rem_new_allow(true);
}
