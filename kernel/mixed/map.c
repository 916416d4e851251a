// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies of files' pages that programs have mapped: their texts, and what they only read.
 *
 * An entry of a page table that maps a copy's frame stands for the copy's page, its home:
 * it is special (pte_special()), and vm_normal_page() gives the home. So references, map
 * counts, charges and what programs are told are those of the home, as if it were mapped
 * itself, and all that goes through vm_normal_page() works as without DRAM: fork(), a
 * store to a private mapping, munmap(), get_user_pages(), mlock(), core dumps. Who walks
 * reverse mappings of the home finds the entry (page_vma_mapped_walk()).
 *
 * The entry is never writable, and no entry of a mapping that is shared and may be written
 * is such a one. The frame belongs to the copy (files.c), not to the entry. So before a
 * copy ends all entries that map it map the home again. To find them, the folio has to be
 * locked, and so it is when one begins to map a copy. A copy ends
 *
 *   before anybody who has locked the folio to change it gets it	rem_mixed_lock()
 *   before a shared mapping may store to it			rem_mixed_unmap()
 *   before reclaim, or what moves pages, looks at its entries	rem_mixed_unmap()
 *   when it is cold						rem_map_end()
 *
 * When a folio leaves the page cache it is mapped nowhere, as always. Then, too, another
 * CPU may still have in its TLB what an entry was, until the one who has taken the entry
 * away has flushed it: the home has a reference for that, the frame has none. So frames that
 * were mapped rest until all TLBs are flushed.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmalloc.h>
#include <asm/tlbflush.h>

#include "mixed.h"
#include "rem_dram_trace.h"

DEFINE_STATIC_CALL(rem_mixed_map, set_pte_range);

/* Frames that rest, and of these such as a flush has been begun for. */
static unsigned long *resting, *flushed;
static atomic_t resting_count = ATOMIC_INIT(0);

/** rem_map_may - Return: whether entries of a mapping may map copies. */
bool rem_map_may(struct vm_area_struct *vma)
{
	return vma->vm_file && !(vma->vm_flags & (VM_SHARED | VM_SPECIAL | VM_LOCKED)) &&
	       !userfaultfd_armed(vma) && !is_vm_hugetlb_page(vma) &&
	       rem_files_has(vma->vm_file->f_mapping->host);
}

struct page *__rem_mixed_home(unsigned long pfn)
{
	return rem_frames_has(pfn) ? rem_frame_home(pfn_to_page(pfn)) : NULL;
}

/* @entry, of the same page. */
static pte_t entry_of(pte_t entry, unsigned long pfn, bool is_frame)
{
	pgprotval_t bits = pgprot_val(pte_pgprot(entry)) & ~_PAGE_SPECIAL;

	return pfn_pte(pfn, __pgprot(bits | (is_frame ? _PAGE_SPECIAL : 0)));
}

/* As set_pte_range(), whose place it takes with memtype=mixed for pages around a fault. */
static void map(struct vm_fault *vmf, struct folio *folio, struct page *page,
		unsigned int nr, unsigned long addr)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct page *frame;
	pte_t entry;

	set_pte_range(vmf, folio, page, nr, addr);
	if (nr != 1 || folio_test_large(folio) || !rem_map_may(vmf->vma))
		return;
	frame = rem_copy_map(page_to_pfn(page));
	if (!frame && addr == vmf->address)
		return;
	/* Another thread may use it already: its page is the same. */
	entry = ptep_get_and_clear(mm, addr, vmf->pte);
	if (frame && !pte_write(entry)) {
		entry = entry_of(entry, page_to_pfn(frame), true);
		atomic64_inc(&rem_mixed_counts.file_mapped);
		trace_dram_map(page_to_pfn(page), page_to_pfn(frame), REM_DRAM_FAULT);
	}
	/* What was only near has not been used. */
	if (addr != vmf->address)
		entry = pte_mkold(entry);
	set_pte_at(mm, addr, vmf->pte, entry);
}

/**
 * struct place - what entries are to map
 * @pfn: the page
 * @is_frame: whether it is a frame
 */
struct place {
	unsigned long pfn;
	bool is_frame;
};

/* Of one mapping. */
static bool place_one(struct folio *folio, struct vm_area_struct *vma,
		      unsigned long address, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(walk, folio, vma, address, PVMW_SYNC);
	struct mmu_notifier_range range;
	struct place *place = arg;

	if (place->is_frame && !rem_map_may(vma))
		return true;
	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, address,
				address + PAGE_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	while (page_vma_mapped_walk(&walk)) {
		pte_t entry = ptep_get(walk.pte);

		if (pte_pfn(entry) == place->pfn || (place->is_frame && pte_write(entry)))
			continue;
		entry = ptep_clear_flush(vma, walk.address, walk.pte);
		set_pte_at(vma->vm_mm, walk.address, walk.pte,
			   entry_of(entry, place->pfn, place->is_frame));
		if (!place->is_frame)
			continue;
		atomic64_inc(&rem_mixed_counts.file_mapped);
		trace_dram_map(folio_pfn(folio), place->pfn, REM_DRAM_SCAN);
	}
	mmu_notifier_invalidate_range_end(&range);
	return true;
}

static void place_all(struct folio *folio, struct page *page, bool is_frame)
{
	struct place place = { .pfn = page_to_pfn(page), .is_frame = is_frame };
	struct rmap_walk_control walk = { .rmap_one = place_one, .arg = &place };

	rmap_walk(folio, &walk);
}

/**
 * rem_map_begin - programs that have a page of a file mapped use its copy
 * @folio: the page, locked, of a file; it has a copy
 *
 * Context: process.
 */
void rem_map_begin(struct folio *folio)
{
	struct page *frame;

	if (folio_test_large(folio) || !folio_mapped(folio))
		return;
	frame = rem_copy_map(folio_pfn(folio));
	if (frame)
		place_all(folio, frame, true);
}

/**
 * rem_map_end - end a copy that may be mapped
 * @folio: its page, locked
 * @why: for tracepoints
 *
 * Context: process.
 * Return: whether there was one.
 */
bool rem_map_end(struct folio *folio, enum rem_dram_reason why)
{
	struct page *frame;

	if (folio_test_large(folio))
		return false;
	frame = rem_copy_take(folio_pfn(folio));
	if (!frame)
		return false;
	trace_dram_end(folio_pfn(folio), page_to_pfn(frame), why);
	place_all(folio, &folio->page, false);
	rem_map_rest(frame);
	return true;
}

/**
 * rem_map_rest - keep a frame until all TLBs are flushed
 * @frame: of a copy that has ended; the caller's reference of it goes over
 *
 * Context: any.
 */
void rem_map_rest(struct page *frame)
{
	set_bit(rem_frame_number(frame), resting);
	atomic_inc(&resting_count);
}

/** rem_map_resting - Return: number of frames that rest. Context: any. */
unsigned int rem_map_resting(void)
{
	return atomic_read(&resting_count);
}

/** rem_map_flush - give back frames that rest. Context: the thread. */
void rem_map_flush(void)
{
	unsigned int number, count = rem_frames_count();

	if (!rem_map_resting())
		return;
	for_each_set_bit(number, resting, count)
		if (test_and_clear_bit(number, resting))
			__set_bit(number, flushed);
	flush_tlb_all();
	for_each_set_bit(number, flushed, count) {
		__clear_bit(number, flushed);
		put_page(rem_frame_of(number));
		atomic_dec(&resting_count);
	}
}

void __rem_mixed_unmap(struct folio *folio)
{
	if (rem_copy_is_mapped(folio_pfn(folio)) && rem_map_end(folio, REM_DRAM_MOVES))
		atomic64_inc(&rem_mixed_counts.file_ended[REM_MIXED_MOVES]);
}

bool __rem_mixed_lock(struct folio *folio, bool nowait)
{
	if (!rem_copy_is_mapped(folio_pfn(folio)))
		return true;
	if (nowait)
		return false;
	if (rem_map_end(folio, REM_DRAM_CHANGES)) {
		/* Nobody reads the old bytes by an entry that is gone already. */
		flush_tlb_all();
		atomic64_inc(&rem_mixed_counts.file_ended[REM_MIXED_CHANGES]);
	}
	return true;
}

/**
 * rem_map_open - memory for what is known of each frame
 *
 * Return: 0 or -ENOMEM.
 */
int __init rem_map_open(void)
{
	size_t bytes = BITS_TO_LONGS(rem_frames_count()) * sizeof(long);

	resting = vzalloc(bytes);
	flushed = vzalloc(bytes);
	return resting && flushed ? 0 : -ENOMEM;
}

/** rem_map_begin_all - from now on faults map copies, where there are any */
void __init rem_map_begin_all(void)
{
	static_call_update(rem_mixed_map, map);
}
