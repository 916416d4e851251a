// SPDX-License-Identifier: GPL-2.0-only
/*
 * A debugger in a text. What it writes goes into a private copy of the page,
 * which the kernel itself makes wrongly where the page is in NVRAM and mapped
 * already: the frame has no struct page that it would use, so it copies what the
 * debugger has at that address, or zeros. Texts have VM_IO, therefore, with which
 * it leaves the access to us. Here the page is taken out of the tables first, so
 * that the file system's fault handler makes the copy, of what is in NVRAM. A
 * program's own writes, after mprotect(), the kernel copies rightly.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "binfmt_off2f.h"

/* With the address space locked for writing: no thread maps it again meanwhile. */
static struct page *page_at(struct vm_area_struct *vma, unsigned long address,
			    bool write)
{
	loff_t at = (loff_t)linear_page_index(vma, address) << PAGE_SHIFT;
	unsigned int how = FOLL_FORCE | (write ? FOLL_WRITE : 0);
	struct page *page;
	long got;

	if (write)
		unmap_mapping_range(vma->vm_file->f_mapping, at, PAGE_SIZE, 0);
	vm_flags_clear(vma, VM_IO);
	got = get_user_pages_remote(vma->vm_mm, address, 1, how, &page, NULL);
	vm_flags_set(vma, VM_IO);
	return got == 1 ? page : NULL;
}

static void transfer(struct page *page, unsigned long address, void *buffer,
		     int bytes, bool write)
{
	void *there = kmap_local_page(page);

	if (write)
		memcpy(there + offset_in_page(address), buffer, bytes);
	else
		memcpy(buffer, there + offset_in_page(address), bytes);
	kunmap_local(there);
	if (write)
		set_page_dirty_lock(page);
	put_page(page);
}

/**
 * off2f_text_access() - what a debugger reads or writes
 * @vma: of a text; its address space is locked for reading, and is again at the
 * end
 * @address: in it
 * @buffer: of the debugger
 * @bytes: how much
 * @write: into the text
 *
 * Return: how many bytes, of this page only, or -EFAULT.
 */
int off2f_text_access(struct vm_area_struct *vma, unsigned long address,
		      void *buffer, int bytes, int write)
{
	const struct vm_operations_struct *texts = vma->vm_ops;
	struct mm_struct *mm = vma->vm_mm;
	struct page *page = NULL;

	bytes = min_t(int, bytes, PAGE_SIZE - offset_in_page(address));
	mmap_read_unlock(mm);
	mmap_write_lock(mm);
	vma = vma_lookup(mm, address);
	if (vma && vma->vm_ops == texts)
		page = page_at(vma, address, write);
	if (page)
		transfer(page, address, buffer, bytes, write);
	mmap_write_downgrade(mm);
	return page ? bytes : -EFAULT;
}
