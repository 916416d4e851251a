// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether all main memory keeps its content without power. If not, no image may
 * be committed: the loader would enter it, and parts of its memory would be lost.
 * Non-volatile is what the loader has described as such: that is what it compares at
 * the next boot.
 */
#include <linux/init.h>
#include <linux/ioport.h>
#include <linux/sizes.h>
#include "stop.h"

/* Called for each range of System RAM; nonzero ends the walk. */
static int __init rem_range_volatile(struct resource *res, void *unused)
{
	u64 end = res->end + 1;

	/* The real-mode trampoline, which Go writes again. */
	if (end <= SZ_1M)
		return 0;
	/* The map may list it as plain RAM, or as what the loader does not know. */
	return !rem_record_nvram(res->start, end - res->start);
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
