// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mapping of a text: page faults insert the frames of NVRAM themselves, as
 * DAX does, but many at once and without asking the file system again. What is
 * written (a debugger's breakpoint, debug.c) is copied first, by the file
 * system's own fault handler: the text itself never changes.
 */
#include <linux/elf.h>
#include <linux/mm.h>
#include <linux/huge_mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/pfn_t.h>
#include <asm/pgalloc.h>

#include "binfmt_off2f.h"

static void text_open(struct vm_area_struct *vma)
{
	struct off2f_xyz_file *xyz = vma->vm_private_data;

	kref_get(&xyz->ref);
	__module_get(THIS_MODULE);
}

static void text_close(struct vm_area_struct *vma)
{
	off2f_xyz_put(vma->vm_private_data);
	module_put(THIS_MODULE);
}

/* What is mapped at once: in the same page table, in the mapping, in the file. */
static unsigned long window(const struct vm_fault *vmf, unsigned long *first)
{
	struct vm_area_struct *vma = vmf->vma;
	const struct off2f_xyz_file *xyz = vma->vm_private_data;
	unsigned long start, end;

	start = ALIGN_DOWN(vmf->address, TEXT_AROUND * PAGE_SIZE);
	end = min(start + TEXT_AROUND * PAGE_SIZE, vma->vm_end);
	start = max(start, vma->vm_start);
	*first = linear_page_index(vma, start);
	return min(*first + ((end - start) >> PAGE_SHIFT), xyz->pages) - *first;
}

/* An empty page table, as the kernel's own pmd_install() makes it. */
static void install_table(struct vm_fault *vmf)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	spinlock_t *ptl; /* of the page table */

	ptl = pmd_lock(mm, vmf->pmd);
	if (pmd_none(*vmf->pmd)) {
		mm_inc_nr_ptes(mm);
		smp_wmb(); /* its content before itself */
		pmd_populate(mm, vmf->pmd, vmf->prealloc_pte);
		vmf->prealloc_pte = NULL;
	}
	spin_unlock(ptl);
}

/*
 * Under RCU, nothing here sleeps: maps what has been looked up before, with one
 * walk and one lock.
 */
static vm_fault_t text_map_pages(struct vm_fault *vmf, pgoff_t from, pgoff_t to)
{
	struct vm_area_struct *vma = vmf->vma;
	struct off2f_xyz_file *xyz = vma->vm_private_data;
	unsigned long first, count, address, frame, i;
	vm_fault_t ret = 0;
	spinlock_t *ptl; /* of the page table */
	pmd_t pmd;
	pte_t *pte;

	if (vmf->pgoff >= xyz->pages || !READ_ONCE(xyz->frame[vmf->pgoff]))
		return 0;
	if (vmf->prealloc_pte && pmd_none(*vmf->pmd))
		install_table(vmf);
	pmd = pmdp_get_lockless(vmf->pmd);
	if (!pmd_present(pmd) || pmd_leaf(pmd))
		return 0;
	count = window(vmf, &first);
	address = vma->vm_start + ((first - vma->vm_pgoff) << PAGE_SHIFT);
	ptl = pte_lockptr(vma->vm_mm, &pmd);
	spin_lock(ptl);
	if (!pmd_same(pmd, pmdp_get_lockless(vmf->pmd)))
		goto out;
	pte = pte_offset_kernel(&pmd, address);
	for (i = 0; i < count; i++, pte++, address += PAGE_SIZE) {
		frame = READ_ONCE(xyz->frame[first + i]);
		if (!frame || !pte_none(ptep_get(pte)))
			continue;
		set_pte_at(vma->vm_mm, address, pte,
			   pte_mkdevmap(pfn_pte(frame, vma->vm_page_prot)));
	}
	atomic_long_inc(&off2f_faults);
	atomic_long_add(count, &off2f_pages);
	ret = VM_FAULT_NOPAGE;
out:
	spin_unlock(ptl);
	return ret;
}

/* What is not known to be in NVRAM, and what the file system must do. */
static vm_fault_t text_fault(struct vm_fault *vmf)
{
	struct off2f_xyz_file *xyz = vmf->vma->vm_private_data;
	vm_fault_t ret = 0;

	if (!(vmf->flags & FAULT_FLAG_WRITE)) {
		rcu_read_lock(); /* as around map_pages() */
		ret = text_map_pages(vmf, 0, 0);
		rcu_read_unlock();
	}
	return ret ?: xyz->fs_ops->fault(vmf);
}

/*
 * The file system maps 2 MiB where it can; where they are can be read then, and
 * it is not asked again.
 */
static vm_fault_t ask_for_huge(struct vm_fault *vmf, unsigned long first)
{
	struct off2f_xyz_file *xyz = vmf->vma->vm_private_data;
	u8 *known = &xyz->huge[first / PTRS_PER_PMD];
	vm_fault_t ret;
	pmd_t pmd;

	if (!xyz->fs_ops->huge_fault)
		return VM_FAULT_FALLBACK;
	ret = xyz->fs_ops->huge_fault(vmf, PMD_ORDER);
	if (ret & VM_FAULT_FALLBACK)
		WRITE_ONCE(*known, HUGE_NO);
	pmd = pmdp_get_lockless(vmf->pmd);
	if (!(ret & VM_FAULT_ERROR) && pmd_devmap(pmd)) {
		WRITE_ONCE(xyz->frame[first], pmd_pfn(pmd));
		smp_store_release(known, HUGE_YES); /* the frame before it */
	}
	return ret;
}

static vm_fault_t text_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct vm_area_struct *vma = vmf->vma;
	struct off2f_xyz_file *xyz = vma->vm_private_data;
	unsigned long start = vmf->address & PMD_MASK;
	unsigned long first;
	u8 known;

	if (order != PMD_ORDER || vmf->flags & FAULT_FLAG_WRITE ||
	    start < vma->vm_start || start + PMD_SIZE > vma->vm_end)
		return VM_FAULT_FALLBACK;
	first = linear_page_index(vma, start);
	if (first % PTRS_PER_PMD || first + PTRS_PER_PMD > xyz->pages)
		return VM_FAULT_FALLBACK;
	/* Before the frame that it is about. */
	known = smp_load_acquire(&xyz->huge[first / PTRS_PER_PMD]);
	if (known == HUGE_NO)
		return VM_FAULT_FALLBACK;
	atomic_long_inc(&off2f_huge_faults);
	if (known == HUGE_UNKNOWN)
		return ask_for_huge(vmf, first);
	return vmf_insert_pfn_pmd(vmf,
				  __pfn_to_pfn_t(xyz->frame[first],
						 PFN_DEV | PFN_MAP),
				  false);
}

static const struct vm_operations_struct text_operations = {
	.open = text_open,
	.close = text_close,
	.fault = text_fault,
	.huge_fault = text_huge_fault,
	.map_pages = text_map_pages,
	.access = off2f_text_access,
};

/* The mapping that the file system has just made becomes ours. */
static int take_over(struct mm_struct *mm, unsigned long start,
		     unsigned long end, struct off2f_xyz_file *xyz)
{
	struct vm_area_struct *vma;
	int err = 0;

	mmap_write_lock(mm);
	vma = find_vma(mm, start);
	if (!vma || vma->vm_start > start || vma->vm_end < end ||
	    vma->vm_file != xyz->file || !vma->vm_ops) {
		err = -EFAULT;
	} else if (vma->vm_ops != &text_operations) {
		xyz->fs_ops = vma->vm_ops;
		vma->vm_private_data = xyz;
		vma->vm_ops = &text_operations;
		vm_flags_set(vma, VM_IO); /* see debug.c */
		text_open(vma);
	}
	mmap_write_unlock(mm);
	return err;
}

static unsigned long map_one(const struct off2f_abc *abc,
			     const struct off2f_text *text,
			     struct off2f_xyz_file *xyz, unsigned long bias)
{
	unsigned long prot = PROT_EXEC;
	unsigned long place = MAP_FIXED;

	if (text->flags & PF_R)
		prot |= PROT_READ;
	if (off2f_is_left_out(abc, text))
		place = MAP_FIXED_NOREPLACE;
	return vm_mmap(xyz->file, bias + text->vaddr, text->bytes, prot,
		       MAP_PRIVATE | place, text->xyz_offset);
}

/**
 * off2f_map() - map all texts into the address space of this process
 * @abc: the program, whose other parts are mapped already
 * @xyz: its text
 */
int off2f_map(const struct off2f_abc *abc, struct off2f_xyz_file *xyz)
{
	struct mm_struct *mm = current->mm;
	u64 lowest = abc->text[0].vaddr;
	unsigned long bias, got;
	int err = 0;
	u32 i;

	for (i = 1; i < abc->head->texts; i++)
		lowest = min(lowest, abc->text[i].vaddr);
	/* binfmt_elf has noted where the lowest executable segment is. */
	bias = (mm->start_code & PAGE_MASK) - lowest;
	mm->end_code = bias + off2f_end_of_code(abc);
	for (i = 0; i < abc->head->texts && !err; i++) {
		got = map_one(abc, &abc->text[i], xyz, bias);
		if (IS_ERR_VALUE(got))
			return got;
		err = take_over(mm, got, got + abc->text[i].bytes, xyz);
	}
	return err;
}
