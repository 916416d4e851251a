// SPDX-License-Identifier: GPL-2.0-only
/*
 * The real-mode trampoline, which has to be in low memory, that is in DRAM. Go
 * restores it from a copy in NVRAM before it starts the other CPUs.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/vmalloc.h>
#include <asm/memory_kinds.h>
#include <asm/realmode.h>
#include "../machine.h"
#include "../resume/resume.h"

/* The number of low pages that are in use has to have a single digit. */
#define REM_TRAMPOLINE_PAGES_MAX 9

static void *rem_trampoline;
/* The kernel write-protects its own mapping of the trampoline's code. */
static void *rem_trampoline_alias;
static size_t rem_trampoline_bytes;

static unsigned int rem_trampoline_pages(void)
{
	return rem_trampoline_bytes >> PAGE_SHIFT;
}

/**
 * rem_trampoline_prepare - copy the trampoline as the kernel has set it up
 *
 * Its size is that of the blob in the kernel image. The blob itself may have been
 * freed, but its symbols are valid.
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
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

/** rem_trampoline_restore - restore the trampoline. Context: Go, one CPU. */
void rem_trampoline_restore(void)
{
	memcpy(rem_trampoline_alias, rem_trampoline, rem_trampoline_bytes);
}

/** rem_low_pages_show - which DRAM the kernel needs. Context: process. */
ssize_t rem_low_pages_show(char *buf)
{
	const struct memory_kinds_low_range *range;
	unsigned int ranges = memory_kinds_low_ranges(&range);
	unsigned int i;
	int at;

	if (!ranges)
		return sysfs_emit(buf, "%u real-mode-trampoline\n",
				  rem_trampoline_pages());
	at = sysfs_emit(buf, "%u in all\n", memory_kinds_low_pages());
	for (i = 0; i < ranges; i++, range++)
		at += sysfs_emit_at(buf, at, "%u at %#llx: %s\n",
				    range->nr_pages, range->start,
				    range->purpose);
	return at;
}
