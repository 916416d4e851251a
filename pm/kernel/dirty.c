// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: which pages a program may have stored to through a mapping
 *
 * One bit for each page of the region: set before the page is mapped for writing,
 * cleared by fsync() and msync(), which first unmap the page, so that the next
 * store faults and sets it again, and then write its lines back. So they take time
 * with what was stored to, not with the size of the segment.
 *
 * A page is mapped for writing and its bit set under the mapping's invalidate_lock,
 * shared; it is unmapped and its bit cleared under the same, alone. So there is no
 * page that may be stored to without its bit. Bits outlive mappings and files: what
 * nobody has written back yet is the next one's to write back.
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "pmcore.h"

#define PIECE_PAGES 512 /* between two that wait for the lock */

static unsigned long *dirty;
static atomic64_t written_back; /* bytes */

static u64 first_page(u32 slot)
{
	return READ_ONCE(pmcore.region.entry[slot].record.offset) >> PAGE_SHIFT;
}

/**
 * pmcore_dirty_init() - memory for the bits
 *
 * Return: 0 or -ENOMEM.
 */
int pmcore_dirty_init(void)
{
	dirty = kvcalloc(BITS_TO_LONGS(pmcore.bytes >> PAGE_SHIFT),
			 sizeof(long), GFP_KERNEL);
	return dirty ? 0 : -ENOMEM;
}

/**
 * pmcore_dirty_exit() - give it back
 */
void pmcore_dirty_exit(void)
{
	kvfree(dirty);
	dirty = NULL;
}

/**
 * pmcore_dirty_set() - pages are about to be mapped for writing
 * @slot: the segment
 * @page: the first of them, in the segment
 * @pages: how many
 */
void pmcore_dirty_set(u32 slot, u64 page, u64 pages)
{
	u64 at = first_page(slot) + page;

	for (; pages; pages--)
		set_bit(at++, dirty);
}

static void write_back(u32 slot, u64 page, u64 pages)
{
	atomic64_add(pages * PAGE_SIZE, &written_back);
	pm_flush(NULL, pm_segment_at(&pmcore.region, slot) + page * PAGE_SIZE,
		 pages * PAGE_SIZE);
}

/* From one page that has its bit on; as many as have, of one piece. */
static u64 clean(struct address_space *mapping, u32 slot, u64 page, u64 end)
{
	u64 first = first_page(slot);
	u64 next, at;

	end = min(end, page + PIECE_PAGES);
	filemap_invalidate_lock(mapping);
	next = find_next_zero_bit(dirty, first + end, first + page) - first;
	for (at = page; at < next; at++)
		clear_bit(first + at, dirty);
	unmap_mapping_pages(mapping, page, next - page, false);
	filemap_invalidate_unlock(mapping);
	/* What is stored from here on has set its bit again. */
	write_back(slot, page, next - page);
	return next;
}

/**
 * pmcore_dirty_written() - how many bytes fsync() and msync() have written back
 */
u64 pmcore_dirty_written(void)
{
	return atomic64_read(&written_back);
}

/**
 * pmcore_dirty_flush() - write back what programs may have stored to a segment
 * @mapping: of all its files
 * @slot: the segment
 * @start: from here
 * @bytes: so much
 *
 * Context: may sleep. The caller has it open, and fences.
 */
void pmcore_dirty_flush(struct address_space *mapping, u32 slot, u64 start,
			u64 bytes)
{
	u64 first = first_page(slot);
	u64 page = start >> PAGE_SHIFT;
	u64 end = DIV_ROUND_UP(start + bytes, PAGE_SIZE);

	for (;;) {
		page = find_next_bit(dirty, first + end, first + page) - first;
		if (page >= end)
			return;
		page = clean(mapping, slot, page, end);
		cond_resched();
	}
}
