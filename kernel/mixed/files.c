// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of files. A page of the page cache stays the page cache's own, in NVRAM; if it
 * is used often, DRAM has a copy, from which read() copies to programs, and which they
 * have mapped (map.c). A copy is never dirty: it costs a Stop nothing, and Go fills it from
 * its page like every frame.
 *
 *   copies[number of the page]		its frame + 1, and MAPPED if it may be mapped; or 0
 *
 * The frame has one reference for that, and one for each reader. It has none of its
 * page: when a page leaves the page cache, or moves, the copy ends, so reclaim and
 * truncation know nothing of copies.
 *
 * What a reader gets: as long as it copies, its reference keeps the frame from being
 * another's, also if the copy ends meanwhile. A write() ends copies before it returns.
 * Who begins to read after that finds none; who has begun before may get the old bytes,
 * as from the page cache itself.
 *
 * A page gets a copy only while it is locked, up to date, clean, and mapped writable by
 * nobody. To change it then, somebody either locks it, and so comes later, or makes it
 * dirty first, which is looked at once more after the copy can be found.
 */
#include <linux/bitmap.h>
#include <linux/highmem.h>
#include <linux/magic.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "mixed.h"
#include "rem_dram_trace.h"

/* Entries of page tables may map it. Set while the folio is locked. */
#define MAPPED BIT(31)

static u32 *copies;
/* Pages that were used since the last scan. */
static unsigned long *used_pages;
static unsigned long pages_end;

struct read_counts {
	u64 dram;
	u64 nvram;
};

static DEFINE_PER_CPU(struct read_counts, read_counts);

DEFINE_STATIC_CALL(rem_mixed_copy, copy_page_to_iter);

static struct page *frame_of(u32 copy)
{
	return rem_frame_of((copy & ~MAPPED) - 1);
}

/* With a reference; NULL if there is none. The caller has a reference of the page. */
static struct page *get_copy(unsigned long pfn)
{
	u32 copy = READ_ONCE(copies[pfn]);
	struct page *frame;

	if (!copy)
		return NULL;
	frame = frame_of(copy);
	if (!get_page_unless_zero(frame))
		return NULL;
	/* It may have been another's by then. */
	if ((READ_ONCE(copies[pfn]) & ~MAPPED) == (copy & ~MAPPED))
		return frame;
	put_page(frame);
	return NULL;
}

static void note_use(unsigned long pfn)
{
	/* Most have been used before: their line of the bitmap stays shared. */
	if (!test_bit(pfn, used_pages))
		set_bit(pfn, used_pages);
}

static size_t read_page(struct page *page, size_t offset, size_t bytes,
			struct iov_iter *iter)
{
	unsigned long pfn = page_to_pfn(page);
	struct page *frame;
	size_t copied;

	if (pfn >= pages_end)
		return copy_page_to_iter(page, offset, bytes, iter);
	if (rem_heat_looks())
		note_use(pfn);
	frame = get_copy(pfn);
	copied = copy_page_to_iter(frame ?: page, offset, bytes, iter);
	if (frame) {
		this_cpu_inc(read_counts.dram);
		put_page(frame);
	} else {
		this_cpu_inc(read_counts.nvram);
	}
	return copied;
}

/* As copy_page_to_iter(), whose place it takes with memtype=mixed. */
static size_t read_pages_of(struct page *page, size_t offset, size_t bytes,
			    struct iov_iter *iter)
{
	size_t done = 0;

	while (done < bytes) {
		size_t at = offset + done;
		size_t part = min(bytes - done, PAGE_SIZE - offset_in_page(at));
		size_t copied = read_page(nth_page(page, at / PAGE_SIZE),
					  offset_in_page(at), part, iter);

		done += copied;
		if (copied < part)
			break;
	}
	return done;
}

/**
 * rem_files_used - a program has used a page by a mapping
 * @pfn: its number
 */
void rem_files_used(unsigned long pfn)
{
	if (pfn < pages_end)
		note_use(pfn);
}

/**
 * rem_copy_is_mapped - Return: whether a page has a copy that entries may map
 * @pfn: its number
 */
bool rem_copy_is_mapped(unsigned long pfn)
{
	return pfn < pages_end && READ_ONCE(copies[pfn]) & MAPPED;
}

/**
 * rem_copy_map - entries may map the copy of a page from now on
 * @pfn: its number; the folio is locked
 *
 * Return: the copy's frame; NULL if there is none.
 */
struct page *rem_copy_map(unsigned long pfn)
{
	u32 copy = pfn < pages_end ? READ_ONCE(copies[pfn]) : 0;

	/* Who ends copies without the folio's lock leaves such as may be mapped. */
	do {
		if (!copy)
			return NULL;
		if (copy & MAPPED)
			break;
	} while (!try_cmpxchg(&copies[pfn], &copy, copy | MAPPED));
	return frame_of(copy);
}

/**
 * rem_copy_take - a page has no copy any more
 * @pfn: its number; the folio is locked
 *
 * Return: what was the copy, with its reference; NULL if there was none.
 */
struct page *rem_copy_take(unsigned long pfn)
{
	u32 copy = pfn < pages_end ? xchg(&copies[pfn], 0) : 0;

	return copy ? frame_of(copy) : NULL;
}

/*
 * Return: whether there was a copy. One that may be mapped ends only if the folio leaves
 * the page cache, where no entry maps it any more. Else it has the content of its page:
 * who changes that calls rem_mixed_lock() or REM_MIXED_WRITES before.
 */
static bool end(unsigned long pfn, enum rem_dram_reason why)
{
	bool leaves = why == REM_DRAM_LEAVES || why == REM_DRAM_MOVES;
	u32 copy = READ_ONCE(copies[pfn]);

	do {
		if (!copy || (copy & MAPPED && !leaves))
			return false;
	} while (!try_cmpxchg(&copies[pfn], &copy, 0));
	trace_dram_end(pfn, page_to_pfn(frame_of(copy)), why);
	if (copy & MAPPED)
		rem_map_rest(frame_of(copy));
	else
		put_page(frame_of(copy));
	return true;
}

void __rem_mixed_end(struct page *page, size_t offset, size_t bytes,
		     enum rem_mixed_why why)
{
	unsigned long pfn = page_to_pfn(page) + offset / PAGE_SIZE;
	unsigned long behind =
		page_to_pfn(page) + DIV_ROUND_UP(offset + bytes, PAGE_SIZE);
	unsigned int ended = 0;

	if (behind > pages_end)
		behind = pages_end;
	for (; pfn < behind; pfn++) {
		if (why == REM_MIXED_WRITES && rem_copy_is_mapped(pfn))
			__rem_mixed_lock(page_folio(pfn_to_page(pfn)), false);
		ended += end(pfn, REM_DRAM_WRITES + why);
	}
	if (ended)
		atomic64_add(ended, &rem_mixed_counts.file_ended[why]);
}

/*
 * File systems of which it is known that nobody changes a page that is up to date
 * without its lock, or before it is dirty.
 */
static bool is_known(const struct super_block *sb)
{
	switch (sb->s_magic) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
		return true;
	}
	return false;
}

/**
 * rem_files_has - Return: whether a mapped page of a file may have a copy
 * @inode: the file's
 *
 * Those of Btrfs are only read: it gives a locked folio back and locks it again before it
 * changes it, in more than one place.
 */
bool rem_files_has(const struct inode *inode)
{
	return S_ISREG(inode->i_mode) && is_known(inode->i_sb) &&
	       inode->i_sb->s_magic != BTRFS_SUPER_MAGIC;
}

/* @folio is locked. */
static bool is_file(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;

	return mapping && !folio_test_anon(folio) &&
	       S_ISREG(mapping->host->i_mode) && is_known(mapping->host->i_sb);
}

/* The same. */
static bool may_have_copy(struct folio *folio)
{
	return folio_test_uptodate(folio) && !folio_test_dirty(folio) &&
	       !folio_test_writeback(folio) && !folio_test_hwpoison(folio) &&
	       !mapping_writably_mapped(folio->mapping) &&
	       !folio_maybe_dma_pinned(folio);
}

/* @page is of a file, locked, and has no copy. */
static void make_copy(struct folio *folio, struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	struct page *frame = rem_frame_lend(page);

	if (!frame)
		return;
	copy_page(page_address(frame), page_address(page));
	unlock_page(frame);
	/* A full barrier: in front of it the content, behind it what has changed. */
	xchg(&copies[pfn], rem_frame_number(frame) + 1);
	atomic64_inc(&rem_mixed_counts.file_copied);
	trace_dram_copy(pfn, page_to_pfn(frame), REM_DRAM_SCAN);
	if (!may_have_copy(folio))
		end(pfn, REM_DRAM_CHANGES);
	else if (rem_files_has(folio->mapping->host))
		rem_map_begin(folio);
}

/* The folio of a page of a file, locked, with a reference; NULL if that cannot be had now. */
static struct folio *lock_file(struct page *page)
{
	struct folio *folio;

	if (!page)
		return NULL;
	folio = page_folio(page);
	/* Others are not the page cache's any more. */
	if (!folio_test_lru(folio) || !folio_try_get(folio))
		return NULL;
	if (page_folio(page) == folio && folio_trylock(folio)) {
		if (page_folio(page) == folio && is_file(folio))
			return folio;
		folio_unlock(folio);
	}
	folio_put(folio);
	return NULL;
}

static void unlock_file(struct folio *folio)
{
	folio_unlock(folio);
	folio_put(folio);
}

/* A page that was used, and had no copy. */
static void look_at(unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio = lock_file(page);

	if (!folio)
		return;
	if (may_have_copy(folio) && rem_heat_is_hot(pfn))
		make_copy(folio, page);
	unlock_file(folio);
}

/* A copy has to end. Return: whether it has. */
static bool cool(unsigned long pfn, enum rem_dram_reason why)
{
	struct folio *folio;
	bool ended;

	if (end(pfn, why))
		return true;
	folio = lock_file(pfn_to_online_page(pfn));
	if (!folio)
		return false;
	ended = rem_map_end(folio, why);
	unlock_file(folio);
	return ended;
}

/* A copy that was used, and has been mapped by nobody yet. */
static void begin_mapped(unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio;

	if (!page || !folio_mapped(page_folio(page)))
		return;
	folio = lock_file(page);
	if (!folio)
		return;
	if (rem_files_has(folio->mapping->host) && may_have_copy(folio))
		rem_map_begin(folio);
	unlock_file(folio);
}

/* A copy was used, for those that look at frames (policy.c). */
static void note_frame(unsigned int number)
{
	struct page *frame = rem_frame_of(number);

	if (!get_page_unless_zero(frame))
		return;
	folio_set_referenced(page_folio(frame));
	put_page(frame);
}

/**
 * rem_files_leave - a frame shall be another's
 * @number: its number; it may have a copy of a page of a file
 *
 * Context: the thread.
 */
void rem_files_leave(unsigned int number)
{
	unsigned int found = number;
	unsigned long pfn;

	if (rem_frame_next_lent(&found, &pfn) && found == number)
		atomic64_add(cool(pfn, REM_DRAM_ROOM), &rem_mixed_counts.file_cooled);
}

/**
 * rem_files_scan - look at all pages of files that were used, and at all copies
 * @empty: all copies end, and none is made, as DRAM is emptied, or a rule has none
 *
 * Context: the thread.
 */
void rem_files_scan(bool empty)
{
	unsigned int number;
	unsigned long pfn;

	for (number = 0; rem_frame_next_lent(&number, &pfn); number++) {
		bool was_used;

		if (rem_text_has(pfn))
			continue;
		was_used = test_and_clear_bit(pfn, used_pages);
		if (was_used && rem_policy_decides())
			note_frame(number);
		/* If it has got another meanwhile, then that one. */
		if (rem_heat_is_cold(pfn, was_used, number) || empty)
			atomic64_add(cool(pfn, REM_DRAM_SCAN), &rem_mixed_counts.file_cooled);
		else if (was_used && !rem_copy_is_mapped(pfn))
			begin_mapped(pfn);
		cond_resched();
	}
	/* None is cold; those that would not come now go. */
	for (number = 0; rem_heat_is_short() && rem_frame_next_lent(&number, &pfn); number++)
		if (rem_heat_is_low(pfn) && !rem_text_has(pfn))
			atomic64_add(cool(pfn, REM_DRAM_ROOM), &rem_mixed_counts.file_cooled);
	rem_map_flush();
	for_each_set_bit(pfn, used_pages, pages_end) {
		if (READ_ONCE(copies[pfn]))
			continue; /* used since it was looked at above */
		clear_bit(pfn, used_pages);
		if (!empty)
			look_at(pfn);
		cond_resched();
	}
}

/**
 * rem_files_reads - how many reads of pages were served
 * @ret_nvram: set to those that the page cache's own pages have served
 *
 * Return: those that DRAM has served.
 */
u64 rem_files_reads(u64 *ret_nvram)
{
	u64 dram = 0;
	int cpu;

	*ret_nvram = 0;
	for_each_possible_cpu(cpu) {
		dram += READ_ONCE(per_cpu(read_counts, cpu).dram);
		*ret_nvram += READ_ONCE(per_cpu(read_counts, cpu).nvram);
	}
	return dram;
}

/**
 * rem_files_open - memory for what is known of each page
 *
 * Return: 0 or -ENOMEM.
 */
int __init rem_files_open(void)
{
	unsigned long count = max_pfn;

	copies = vzalloc(array_size(count, sizeof(*copies)));
	used_pages = vzalloc(array_size(BITS_TO_LONGS(count), sizeof(long)));
	if (!copies || !used_pages)
		return -ENOMEM;
	pages_end = count;
	return 0;
}

/** rem_files_begin - from now on reads go to copies, where there are any */
void __init rem_files_begin(void)
{
	static_call_update(rem_mixed_copy, read_pages_of);
}
