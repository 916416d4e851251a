// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether all main memory keeps its content without power. If not, no image may
 * be committed: the loader would enter it, and parts of its memory would be lost.
 */
#include <linux/init.h>
#include <linux/ioport.h>
#include <linux/sizes.h>
#include <asm/e820/api.h>
#include "stop.h"

/* Called for each range of System RAM; nonzero ends the walk. */
static int __init rem_range_volatile(struct resource *res, void *unused)
{
	u64 end = res->end + 1;

	/* The real-mode trampoline, which Go writes again. */
	if (end <= SZ_1M)
		return 0;
	/* The memory map may list the region as plain RAM. */
	if (res->start >= rem.region_phys &&
	    end <= rem.region_phys + rem.region_bytes)
		return 0;
	/* Other NVRAM is as good; memory unknown to firmware is not. */
	return e820__mapped_raw_any(res->start, end, E820_TYPE_RAM) ||
	       !(e820__mapped_raw_any(res->start, end, E820_TYPE_PMEM) ||
		 e820__mapped_raw_any(res->start, end, E820_TYPE_PRAM));
}

/**
 * rem_memory_volatile - look for main memory that loses its content
 *
 * Context: process, once.
 * Return: whether any memory above 1 MiB that the kernel may allocate is
 * volatile.
 */
bool __init rem_memory_volatile(void)
{
	return walk_system_ram_res(0, U64_MAX, NULL, rem_range_volatile);
}
