// SPDX-License-Identifier: GPL-2.0-only
/*
 * The range as memory of this kernel: hot-added, and withheld from the page
 * allocator page by page.
 *
 * A page of a block that goes online is not freed, as it may hold what a program
 * had before this kernel ran. User space knows which do (struct rem_keep_entry),
 * and frees the others.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/gfp.h>
#include <linux/ioport.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "keep_range.h"

#define NAME "System RAM (rem_keep)"
#define TAKE_ATTEMPTS 4

struct keep_range keep = {
	.lock = __MUTEX_INITIALIZER(keep.lock),
};

struct page *keep_page(u32 frame)
{
	return pfn_to_page(PHYS_PFN(keep.start) + frame);
}

/**
 * keep_frame_of() - the place of a page in the range
 * @page: any page
 * @frame: its place, in pages
 *
 * Return: whether it lies there.
 */
bool keep_frame_of(struct page *page, u32 *frame)
{
	unsigned long pfn = page_to_pfn(page), first = PHYS_PFN(keep.start);

	if (pfn < first || pfn >= first + keep.pages)
		return false;
	*frame = pfn - first;
	return true;
}

/* Pages of the range stay offline; all other memory goes online as usual. */
static void online(struct page *page, unsigned int order)
{
	u32 frame;

	if (!keep_frame_of(page, &frame)) {
		generic_online_page(page, order);
		return;
	}
	/* Blocks go online one at a time, and bits of one word belong to one block. */
	bitmap_set(keep.held, frame, 1U << order);
}

/*
 * The range may be described as persistent memory, which is no busy resource, or
 * be reserved on the command line. A driver that uses it has it marked busy.
 */
static int claim(void)
{
	struct resource *res;

	res = request_mem_region(keep.start, keep.bytes, "rem_keep");
	if (!res) {
		pr_err("[%pa, %llu bytes] is in use, or no memory: unbind its driver\n",
		       &keep.start, keep.bytes);
		return -EBUSY;
	}
	/* As drivers/dax/kmem.c: memory is added below this entry. */
	res->flags = IORESOURCE_SYSTEM_RAM;
	return 0;
}

/**
 * keep_range_add() - make memory of the range
 * @start: physical address in bytes
 * @bytes: its size; both are multiples of the size of a memory block
 *
 * Blocks are offline then. It cannot be undone before the next boot: programs
 * have these pages.
 *
 * Return: 0, -EINVAL for a range that cannot be had, -EBUSY if another has it, or
 * what the kernel's memory hotplug reports.
 */
int keep_range_add(u64 start, u64 bytes)
{
	u64 block = memory_block_size_bytes();
	int err;

	if (!bytes || !IS_ALIGNED(start | bytes, block) ||
	    start + bytes < start) {
		pr_err("start=%#llx bytes=%llu: both must be multiples of %llu\n",
		       start, bytes, block);
		return -EINVAL;
	}
	keep.start = start;
	keep.bytes = bytes;
	keep.pages = bytes >> PAGE_SHIFT;
	keep.node = phys_to_target_node(start);
	if (keep.node == NUMA_NO_NODE)
		keep.node = memory_add_physaddr_to_nid(start);
	keep.held = vzalloc(BITS_TO_LONGS(keep.pages) * sizeof(long));
	keep.shared = vzalloc(BITS_TO_LONGS(keep.pages) * sizeof(long));
	keep.pinned = vzalloc(BITS_TO_LONGS(keep.pages) * sizeof(long));
	err = keep.held && keep.shared && keep.pinned ? claim() : -ENOMEM;
	if (err)
		goto out;
	err = set_online_page_callback(online);
	if (err) {
		pr_err("another driver decides which pages go online (a balloon?)\n");
		goto release;
	}
	err = add_memory_driver_managed(keep.node, start, bytes, NAME,
					MHP_NONE);
	if (err) {
		pr_err("the memory cannot be added: %d\n", err);
		goto callback;
	}
	return 0;

callback:
	restore_online_page_callback(online);
release:
	release_mem_region(start, bytes);
out:
	vfree(keep.pinned);
	vfree(keep.shared);
	vfree(keep.held);
	return err;
}

/**
 * keep_is_held() - whether all pages of a span are held
 * @first: page of the range
 * @pages: how many; 0 is never held
 *
 * Context: keep.lock is held.
 */
bool keep_is_held(u32 first, u32 pages)
{
	if (!pages || first >= keep.pages || pages > keep.pages - first)
		return false;
	return find_next_zero_bit(keep.held, first + pages, first) >=
	       first + pages;
}

/**
 * keep_free() - hand held pages to the page allocator
 * @first: page of the range
 * @pages: how many
 *
 * Return: 0, or -EBUSY if one of them is not held.
 */
int keep_free(u32 first, u32 pages)
{
	if (!keep_is_held(first, pages))
		return -EBUSY;
	bitmap_clear(keep.held, first, pages);
	for (u32 i = 0; i < pages; i++) {
		generic_online_page(keep_page(first + i), 0);
		if (!(i % 1024))
			cond_resched();
	}
	return 0;
}

/* A free page of the range, or NULL. Without nodes the allocator may give others. */
static struct page *take_one(u32 *frame)
{
	gfp_t gfp = GFP_HIGHUSER_MOVABLE | __GFP_THISNODE | __GFP_NOWARN |
		    __GFP_NORETRY;

	for (int i = 0; i < TAKE_ATTEMPTS; i++) {
		struct page *page = alloc_pages_node(keep.node, gfp, 0);

		if (!page || keep_frame_of(page, frame))
			return page;
		__free_page(page);
	}
	return NULL;
}

/**
 * keep_take() - pages that the page allocator gives back, which are held then
 * @argument: see struct rem_keep_take
 *
 * Return: 0 with the number had in @count, -EFAULT.
 */
long keep_take(struct rem_keep_take __user *argument)
{
	struct rem_keep_take take;
	u32 __user *to;
	u32 frame, had;

	if (copy_from_user(&take, argument, sizeof(take)))
		return -EFAULT;
	to = u64_to_user_ptr(take.frames);
	for (had = 0; had < take.count; had++) {
		struct page *page = take_one(&frame);

		if (!page)
			break;
		if (put_user(frame, to + had)) {
			__free_page(page);
			return -EFAULT;
		}
		/* What generic_online_page() expects of a page that it frees. */
		adjust_managed_page_count(page, -1);
		__folio_set_offline(page_folio(page));
		set_bit(frame, keep.held);
		cond_resched();
	}
	return put_user(had, &argument->count) ? -EFAULT : 0;
}
