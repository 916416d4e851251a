// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page table that the entry code loads first: the kernel's own mappings, and
 * an identity mapping of the entry code. It is built when the machine is armed.
 */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <asm/init.h>
#include <asm/pgalloc.h>
#include <asm/pgtable.h>
#include "../machine.h"
#include "../resume/resume.h"

static pgd_t *rem_pgd;

static void *rem_pagetable_page(void *unused)
{
	return (void *)get_zeroed_page(GFP_KERNEL);
}

/**
 * rem_pagetable_prepare - build the page table of the entry code
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int __init rem_pagetable_prepare(void)
{
	struct x86_mapping_info info = {
		.alloc_pgt_page = rem_pagetable_page,
		.page_flag = __PAGE_KERNEL_LARGE_EXEC,
	};
	phys_addr_t entry = __pa_symbol(rem_go_entry);
	int err;

	/* With page table isolation each table has one for user mode beside it. */
	rem_pgd = (pgd_t *)__get_free_pages(GFP_KERNEL | __GFP_ZERO,
					    PGD_ALLOCATION_ORDER);
	if (!rem_pgd)
		return -ENOMEM;
	clone_pgd_range(rem_pgd + KERNEL_PGD_BOUNDARY,
			swapper_pg_dir + KERNEL_PGD_BOUNDARY, KERNEL_PGD_PTRS);
	err = kernel_ident_mapping_init(&info, rem_pgd,
					round_down(entry, PMD_SIZE),
					round_up(entry + PAGE_SIZE, PMD_SIZE));
	return err;
}

/** rem_pagetable_cr3 - Return: physical address of the table. */
phys_addr_t rem_pagetable_cr3(void)
{
	return __pa(rem_pgd);
}
