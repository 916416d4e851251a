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
#include <asm/realmode.h>
#include "resume.h"

static void *rem_trampoline;
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
	rem_trampoline_bytes = PAGE_ALIGN(real_mode_blob_end - real_mode_blob);
	rem_trampoline = kvmalloc(rem_trampoline_bytes, GFP_KERNEL);
	if (!rem_trampoline)
		return -ENOMEM;
	memcpy(rem_trampoline, real_mode_header, rem_trampoline_bytes);
	return 0;
}

/** rem_trampoline_restore - put the copy back; Context: Go, one CPU. */
void rem_trampoline_restore(void)
{
	memcpy(real_mode_header, rem_trampoline, rem_trampoline_bytes);
}

/** rem_trampoline_pages - Return: how many low pages it takes. */
unsigned int rem_trampoline_pages(void)
{
	return rem_trampoline_bytes >> PAGE_SHIFT;
}
