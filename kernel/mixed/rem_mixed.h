/* SPDX-License-Identifier: GPL-2.0-only */
/* memtype=mixed: what the memory manager asks and tells (patch 0023). */
#ifndef _LINUX_REMANENCE_REM_MIXED_H
#define _LINUX_REMANENCE_REM_MIXED_H

#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/jump_label.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/static_call.h>
#include <linux/swap.h>
#include <linux/uio.h>

/**
 * enum rem_mixed_why - why the copy of a file's page ends
 * @REM_MIXED_WRITES: a program's bytes come; the folio is locked, as all file systems do
 * @REM_MIXED_CHANGES: the folio has become dirty
 * @REM_MIXED_LEAVES: the folio leaves the page cache
 * @REM_MIXED_MOVES: another folio takes its place there, with the same content
 */
enum rem_mixed_why {
	REM_MIXED_WRITES,
	REM_MIXED_CHANGES,
	REM_MIXED_LEAVES,
	REM_MIXED_MOVES,
};

void __rem_mixed_end(struct page *page, size_t offset, size_t bytes,
		     enum rem_mixed_why why);
struct page *__rem_mixed_home(unsigned long pfn);
void __rem_mixed_unmap(struct folio *folio);
bool __rem_mixed_lock(struct folio *folio, bool nowait);
void __rem_mixed_poked(const void *addr, size_t bytes);

#ifdef CONFIG_REMANENCE_MIXED
DECLARE_STATIC_KEY_FALSE(rem_mixed_key);
/* copy_page_to_iter() itself without memtype=mixed: no instruction more. */
DECLARE_STATIC_CALL(rem_mixed_copy, copy_page_to_iter);
/* The same for a page that a fault maps, and for anonymous pages. */
DECLARE_STATIC_CALL(rem_mixed_map, set_pte_range);

DECLARE_STATIC_CALL(rem_mixed_alloc, vma_alloc_folio_noprof);
DECLARE_STATIC_CALL(rem_mixed_add_lru, folio_add_lru_vma);
DECLARE_STATIC_CALL(rem_mixed_huge, do_huge_pmd_anonymous_page);

bool rem_mixed_write(struct folio *folio);
vm_fault_t rem_mixed_marked(struct vm_fault *vmf);

static inline bool rem_mixed_used(void)
{
	return static_branch_unlikely(&rem_mixed_key);
}

/**
 * rem_mixed_is_marked - Return: whether the next use of a page is a fault that asks policy.c
 * @entry: present, in a mapping that programs may access
 *
 * pte_protnone() with CONFIG_NUMA_BALANCING, whose marks are the same: they are removed.
 */
static inline bool rem_mixed_is_marked(pte_t entry)
{
	return rem_mixed_used() && (pte_flags(entry) & (_PAGE_PRESENT | _PAGE_PROTNONE)) ==
					   _PAGE_PROTNONE;
}

/**
 * rem_mixed_may_write - a program is about to get an anonymous page for itself
 * @folio: locked, mapped once, not yet writable
 *
 * Return: false if it has to get a copy instead: more pages of DRAM may not differ
 * from their homes in NVRAM.
 */
static inline bool rem_mixed_may_write(struct folio *folio)
{
	return !rem_mixed_used() ||
	       !folio_is_device_coherent(folio) || rem_mixed_write(folio);
}

/**
 * rem_mixed_read - copy_folio_to_iter() of a file's folio, or of its copy in DRAM
 * @folio: up to date; the caller has a reference
 * @offset: where to begin
 * @bytes: how many
 * @iter: where to
 *
 * Return: the number of bytes copied.
 */
static inline size_t rem_mixed_read(struct folio *folio, size_t offset,
				    size_t bytes, struct iov_iter *iter)
{
	return static_call(rem_mixed_copy)(&folio->page, offset, bytes, iter);
}

/**
 * rem_mixed_new - allocate an anonymous page
 * @vma: where it will be
 * @addr: the address there
 * @zero: whether it has to be zero
 *
 * Return: the page, in NVRAM or in DRAM; NULL if there is no memory.
 */
static inline struct folio *rem_mixed_new(struct vm_area_struct *vma,
					  unsigned long addr, bool zero)
{
	gfp_t gfp = GFP_HIGHUSER_MOVABLE | (zero ? __GFP_ZERO : 0);

	return alloc_hooks(static_call(rem_mixed_alloc)(gfp, 0, vma, addr,
							false));
}

/**
 * rem_mixed_new_lru - folio_add_lru_vma() of what rem_mixed_new() has given
 * @folio: the page
 * @vma: where it is mapped
 */
static inline void rem_mixed_new_lru(struct folio *folio,
				     struct vm_area_struct *vma)
{
	static_call(rem_mixed_add_lru)(folio, vma);
}

/**
 * rem_mixed_new_huge - do_huge_pmd_anonymous_page(), or nothing if DRAM has room
 * @vmf: the fault
 *
 * Return: VM_FAULT_FALLBACK if small pages shall come instead.
 */
static inline vm_fault_t rem_mixed_new_huge(struct vm_fault *vmf)
{
	return static_call(rem_mixed_huge)(vmf);
}

/**
 * rem_mixed_map_page - set_pte_range() of one page, or of its copy in DRAM
 * @vmf: the fault
 * @folio: locked
 * @page: the only one of it
 * @addr: where to
 */
static inline void rem_mixed_map_page(struct vm_fault *vmf, struct folio *folio,
				      struct page *page, unsigned long addr)
{
	static_call(rem_mixed_map)(vmf, folio, page, 1, addr);
}

/**
 * rem_mixed_home - Return: what a special entry stands for; NULL if it is not ours
 * @pfn: the page that it maps
 */
static inline struct page *rem_mixed_home(unsigned long pfn)
{
	return rem_mixed_used() ? __rem_mixed_home(pfn) : NULL;
}

/**
 * rem_mixed_unmap - entries that map a copy of a folio map the folio
 * @folio: locked
 *
 * Before somebody looks at them by reverse mappings, and changes them.
 * Context: process.
 */
static inline void rem_mixed_unmap(struct folio *folio)
{
	if (rem_mixed_used())
		__rem_mixed_unmap(folio);
}

/**
 * rem_mixed_lock - somebody has locked a folio of a file, and may change it
 * @folio: locked
 * @nowait: whether he must not wait
 *
 * Context: process.
 * Return: false if he would have to wait until nobody maps a copy of it.
 */
static inline bool rem_mixed_lock(struct folio *folio, bool nowait)
{
	return !rem_mixed_used() || __rem_mixed_lock(folio, nowait);
}

/**
 * rem_mixed_end - copies of pages of a file are not read any more
 * @page: the first page, or the folio's
 * @offset: the first byte, from there on
 * @bytes: how many
 * @why: the reason
 *
 * Before the system call returns that changes the pages, and before they belong to
 * another one. Context: any; process for REM_MIXED_WRITES.
 */
static inline void rem_mixed_end(struct page *page, size_t offset, size_t bytes,
				 enum rem_mixed_why why)
{
	if (rem_mixed_used())
		__rem_mixed_end(page, offset, bytes, why);
}

/**
 * rem_mixed_poked - a change of text is in memory
 * @addr: where the text is executed
 * @bytes: how many
 *
 * Before any CPU may execute it. Context: __text_poke().
 */
static inline void rem_mixed_poked(const void *addr, size_t bytes)
{
	if (rem_mixed_used())
		__rem_mixed_poked(addr, bytes);
}
#else
static inline bool rem_mixed_used(void)
{
	return false;
}

static inline void rem_mixed_poked(const void *addr, size_t bytes)
{
}

static inline bool rem_mixed_is_marked(pte_t entry)
{
	return false;
}

static inline vm_fault_t rem_mixed_marked(struct vm_fault *vmf)
{
	return 0;
}

static inline bool rem_mixed_may_write(struct folio *folio)
{
	return true;
}

static inline size_t rem_mixed_read(struct folio *folio, size_t offset,
				    size_t bytes, struct iov_iter *iter)
{
	return copy_folio_to_iter(folio, offset, bytes, iter);
}

static inline struct folio *rem_mixed_new(struct vm_area_struct *vma,
					  unsigned long addr, bool zero)
{
	if (zero)
		return vma_alloc_zeroed_movable_folio(vma, addr);
	return vma_alloc_folio(GFP_HIGHUSER_MOVABLE, 0, vma, addr, false);
}

static inline void rem_mixed_new_lru(struct folio *folio,
				     struct vm_area_struct *vma)
{
	folio_add_lru_vma(folio, vma);
}

static inline vm_fault_t rem_mixed_new_huge(struct vm_fault *vmf)
{
	return do_huge_pmd_anonymous_page(vmf);
}

static inline void rem_mixed_map_page(struct vm_fault *vmf, struct folio *folio,
				      struct page *page, unsigned long addr)
{
	set_pte_range(vmf, folio, page, 1, addr);
}

static inline struct page *rem_mixed_home(unsigned long pfn)
{
	return NULL;
}

static inline void rem_mixed_unmap(struct folio *folio)
{
}

static inline bool rem_mixed_lock(struct folio *folio, bool nowait)
{
	return true;
}

static inline void rem_mixed_end(struct page *page, size_t offset, size_t bytes,
				 enum rem_mixed_why why)
{
}
#endif

/* The same of all of a folio. Those of hugetlbfs have no copies, but many pages. */
static inline void rem_mixed_end_folio(struct folio *folio,
				       enum rem_mixed_why why)
{
	if (rem_mixed_used() && !folio_test_hugetlb(folio))
		__rem_mixed_end(&folio->page, 0, folio_size(folio), why);
}

#endif /* _LINUX_REMANENCE_REM_MIXED_H */
