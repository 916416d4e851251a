// SPDX-License-Identifier: GPL-2.0-only
/*
 * The real-mode trampoline: the one thing that must lie in low memory, which is
 * DRAM and loses its content. A copy is kept in NVRAM and put back by Go,
 * before any other CPU is started.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <asm/realmode.h>
#include "resume.h"

/* More would not be "a single-digit number of low pages". */
#define REM_TRAMPOLINE_PAGES_MAX 9

static void *rem_trampoline;
/* The kernel write-protects its own mapping of the trampoline's code. */
static void *rem_trampoline_alias;
static size_t rem_trampoline_bytes;

/**
 * rem_trampoline_prepare - copy the trampoline as the kernel set it up
 *
 * Its size is that of the blob in the kernel image; the blob itself may be gone
 * by now, but symbols stay.
 *
 * Context: process, may sleep. Return: 0 or -ENOMEM.
 */
int __init rem_trampoline_prepare(void)
{
	struct page *pages[REM_TRAMPOLINE_PAGES_MAX];
	unsigned int i;

	rem_trampoline_bytes = PAGE_ALIGN(real_mode_blob_end - real_mode_blob);
	rem_trampoline = kvmalloc(rem_trampoline_bytes, GFP_KERNEL);
	if (!rem_trampoline)
		return -ENOMEM;
	for (i = 0; i < rem_trampoline_pages() && i < ARRAY_SIZE(pages); i++)
		pages[i] = virt_to_page((void *)real_mode_header +
					i * PAGE_SIZE);
	rem_trampoline_alias = vmap(pages, i, VM_MAP, PAGE_KERNEL);
	if (!rem_trampoline_alias || i < rem_trampoline_pages())
		return -ENOMEM;
	memcpy(rem_trampoline, real_mode_header, rem_trampoline_bytes);
	return 0;
}

/** rem_trampoline_restore - put the copy back; Context: Go, one CPU. */
void rem_trampoline_restore(void)
{
	memcpy(rem_trampoline_alias, rem_trampoline, rem_trampoline_bytes);
}

/** rem_trampoline_pages - Return: how many low pages it takes. */
unsigned int rem_trampoline_pages(void)
{
	return rem_trampoline_bytes >> PAGE_SHIFT;
}
