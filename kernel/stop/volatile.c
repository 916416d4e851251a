// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether what the kernel works in would be there after a power cut. If not, an
 * image must not be committed: it would be entered, and its memory be gone.
 */
#include <linux/init.h>
#include <linux/ioport.h>
#include <linux/sizes.h>
#include <asm/e820/api.h>
#include "stop.h"

/* Walks all System RAM; ends at the first range that is volatile. */
static int __init rem_range_volatile(struct resource *res, void *unused)
{
	u64 end = res->end + 1;

	/* The trampoline of the CPUs is there, which Go writes anew. */
	if (end <= SZ_1M)
		return 0;
	/* What the loader handed over may be told as plain RAM. */
	if (res->start >= rem.region_phys &&
	    end <= rem.region_phys + rem.region_bytes)
		return 0;
	/* Other NVRAM is as good; memory firmware does not know is not. */
	return e820__mapped_raw_any(res->start, end, E820_TYPE_RAM) ||
	       !(e820__mapped_raw_any(res->start, end, E820_TYPE_PMEM) ||
		 e820__mapped_raw_any(res->start, end, E820_TYPE_PRAM));
}

/**
 * rem_memory_volatile - look for main memory that loses its content
 *
 * Context: process, once. Return: whether any memory the kernel may allocate
 * is volatile, the pages below 1 MiB left aside.
 */
bool __init rem_memory_volatile(void)
{
	return walk_system_ram_res(0, U64_MAX, NULL, rem_range_volatile);
}
