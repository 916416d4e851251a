// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registry's bytes (rem_registry.h). Each entry and each word of it is written
 * such that a reader finds the old or the new one, whatever has reached memory.
 */
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/libnvdimm.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include <asm/e820/api.h>

#include "../machine.h"
#include "../pm/rem_pm.h"
#include "persist.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

static char *redo_asked;
module_param_named(persist_redo, redo_asked, charp, 0444);
MODULE_PARM_DESC(persist_redo, "Bytes of remanence.persist= for writes whose flush ends in memory");

/* Where the superblock of such a region may be (asm/shared/pm_place.h). */
#define PM_ALIGN 0x200000ull

static struct rem_registry *head;
static struct rem_registry_policy *policy;
static struct rem_registry_file *files;
static struct rem_registry_page *entries;
static void *base;
static size_t registry_bytes;
static u32 nr_files, nr_pages;
static u64 redo_bytes;
static bool unformatted __initdata;

/* What is not in NVRAM, since the next kernel does not need it. */
static DEFINE_SPINLOCK(free_lock);
static unsigned long *pages_taken, *files_taken;
static struct page **pages;
static u64 *epochs;
static u32 used_pages, used_files, search_from;
static u64 last_id;

/* Nothing is written back that a failure may lose. */
static bool in_caches;

static void write_back(const void *at, size_t bytes)
{
	arch_wb_cache_pmem((void *)at, bytes);
}

/** rem_registry_fence - what was written back before is in NVRAM after it */
void rem_registry_fence(void)
{
	wmb(); /* SFENCE: orders CLWB and CLFLUSHOPT, which stores alone do not */
}

static bool head_is_right(size_t bytes)
{
	return head->magic == REM_REGISTRY_MAGIC &&
	       head->version == REM_REGISTRY_VERSION && head->files &&
	       head->pages && head->bytes <= bytes &&
	       head->crc == rem_checksum(head, offsetof(struct rem_registry,
							 crc));
}

static size_t tables_bytes(u32 nr_files, u32 nr_pages)
{
	return nr_files * REM_REGISTRY_COPIES * sizeof(*files) +
	       nr_pages * sizeof(*entries);
}

/* The redo area stays as it is. */
static void write_empty(void)
{
	size_t tables = tables_bytes(nr_files, nr_pages);
	struct rem_registry new = {
		.magic = REM_REGISTRY_MAGIC,
		.version = REM_REGISTRY_VERSION,
		.files = nr_files,
		.bytes = registry_bytes,
		.pages = nr_pages,
		.redo_bytes = redo_bytes,
	};

	memset(base, 0, tables);
	write_back(base, tables);
	*policy = (struct rem_registry_policy){};
	write_back(policy, sizeof(*policy));
	rem_registry_fence();
	new.crc = rem_checksum(&new, offsetof(struct rem_registry, crc));
	*head = new;
	write_back(head, sizeof(*head));
	rem_registry_fence();
}

/* Of a mail server or a compiler most files have no more. */
#define PAGES_PER_FILE 4

/* As many pages as fit, beside a file for each PAGES_PER_FILE of them. */
static void choose_counts(size_t bytes, u64 redo)
{
	size_t file = REM_REGISTRY_COPIES * sizeof(*files);
	size_t page = sizeof(*entries) + PAGE_SIZE;

	redo_bytes = redo;
	bytes -= redo + PAGE_SIZE;
	nr_files = min_t(size_t, bytes / (PAGES_PER_FILE * page + file),
			 REM_REGISTRY_FILES_MAX);
	nr_pages = min_t(size_t, (bytes - nr_files * file) / page,
			 REM_REGISTRY_PAGES_MAX);
}

/* Of the redo area: not more than the registry's own part. */
static u64 __init redo_wanted(size_t bytes)
{
	u64 redo = redo_asked ? memparse(redo_asked, NULL) & PAGE_MASK : 0;

	if (redo > bytes / 2) {
		pr_warn("remanence: remanence.persist_redo= is more than half of what is put aside\n");
		return 0;
	}
	return redo;
}

/* Whether what the head has fits into the bytes of the head. */
static bool head_fits(void)
{
	u64 needed = tables_bytes(head->files, head->pages) +
		     (head->pages + 1ul) * PAGE_SIZE;

	return needed <= head->bytes && !(head->redo_bytes % PAGE_SIZE) &&
	       head->redo_bytes <= head->bytes - needed;
}

static void place_tables(size_t bytes)
{
	void *end = (void *)head + PAGE_SIZE;

	registry_bytes = bytes;
	base = end - bytes;
	files = base;
	entries = base + nr_files * REM_REGISTRY_COPIES * sizeof(*files);
	if (redo_bytes)
		rem_redo_open(end - PAGE_SIZE * (nr_pages + 1ul) - redo_bytes,
			      redo_bytes);
	else
		rem_redo_open(NULL, 0);
}

/* Where the region ends whose superblock is at @phys; 0: there is none. */
static u64 __init pm_region_end(u64 phys)
{
	struct rem_pm_super *half = memremap(phys, REM_PM_SLOT_BYTES,
					     MEMREMAP_WB);
	u64 end = 0;
	int i;

	for (i = 0; half && i < REM_PM_HALVES; i++)
		if (half[i].magic == REM_PM_MAGIC)
			end = max3(end, phys + half[i].region_bytes,
				   phys + half[i].wish_bytes);
	if (half)
		memunmap(half);
	return end;
}

/*
 * Whether a region of persistent memory (pm=) reaches into [start, end). It may be
 * from a time without a registry, and its place is no other's to give.
 */
static bool __init has_pm_region(u64 start, u64 end)
{
	u64 at = round_up(rem.region_phys + REM_BLOCK_BYTES, PM_ALIGN);

	for (; at < end; at += PM_ALIGN)
		if (pm_region_end(at) > start)
			return true;
	return false;
}

/* The registry that is there. Returns false if there is none, or another is wanted. */
static bool __init take_over(size_t bytes)
{
	if (!head_is_right(bytes) || !head_fits())
		return false;
	nr_files = head->files;
	nr_pages = head->pages;
	redo_bytes = head->redo_bytes;
	place_tables(head->bytes);
	if (redo_bytes == redo_wanted(head->bytes) || rem_registry_found() ||
	    rem_redo_waits())
		return true;
	/* Empty, and of the same place: only its parts are others. */
	choose_counts(registry_bytes, redo_wanted(registry_bytes));
	place_tables(registry_bytes);
	unformatted = true;
	return true;
}

static int __init find_registry(void)
{
	u64 end = rem.region_phys + rem.region_bytes, start = end;
	void *whole;

	if (!rem.region_bytes)
		return -ENODEV;
	/* By the loader's own map: pm= and memmap= reserve memory, too. */
	while (start > rem.region_phys &&
	       e820__mapped_raw_any(start - PAGE_SIZE, start,
				    E820_TYPE_RESERVED))
		start -= PAGE_SIZE;
	if (end - start < 64 * PAGE_SIZE)
		return -ENODEV;
	whole = memremap(start, end - start, MEMREMAP_WB);
	if (!whole)
		return -ENOMEM;
	head = whole + (end - start) - PAGE_SIZE;
	policy = (void *)(head + 1);
	if (take_over(end - start))
		return 0;
	if (has_pm_region(start, end)) {
		memunmap(whole);
		return -EBUSY;
	}
	choose_counts(end - start, redo_wanted(end - start));
	place_tables(end - start);
	unformatted = true;
	return 0;
}

/**
 * rem_registry_open - find what the loader has put aside
 *
 * Several times gives the same. What was not there, or has other parts than before, is
 * made empty here: a ring may be made in it from now on.
 *
 * Return: 0, -ENODEV if it is nothing, -EBUSY if persistent memory is there, or
 * another negative errno.
 */
int __init rem_registry_open(void)
{
	static int err __initdata = 1;

	if (err <= 0)
		return err;
	err = find_registry();
	if (!err && unformatted) {
		rem_redo_format();
		write_empty();
	}
	return err;
}

/**
 * rem_registry_found - whether an earlier kernel has left something in it
 *
 * By the cheaper policy that may have been in CPU caches, all of it.
 *
 * Return: true if there is something to do or to tell.
 */
bool rem_registry_found(void)
{
	u32 i;

	if (!head_is_right(registry_bytes))
		return false;
	if (policy->in_caches == REM_REGISTRY_IN_CACHES)
		return true;
	for (i = 0; i < nr_pages; i++)
		if (entries[i].id)
			return true;
	return false;
}

/**
 * rem_registry_clear - a page of an earlier kernel is in its file
 * @entry: of the page
 *
 * It must not be written again: the file may change from now on.
 *
 * Return: whether there is such an entry.
 */
bool rem_registry_clear(u32 entry)
{
	if (entry >= nr_pages)
		return false;
	WRITE_ONCE(entries[entry].id, 0);
	write_back(&entries[entry], sizeof(entries[entry]));
	rem_registry_fence();
	return true;
}

/**
 * rem_registry_format - make it empty, and ready for this kernel
 *
 * Without memory for that it stays as it is, and nothing is registered.
 */
void rem_registry_format(void)
{
	write_empty();
	if (pages)
		return;
	files_taken = bitmap_zalloc(nr_files, GFP_KERNEL);
	pages_taken = bitmap_zalloc(nr_pages, GFP_KERNEL);
	epochs = kvcalloc(nr_pages, sizeof(*epochs), GFP_KERNEL);
	if (files_taken && pages_taken && epochs)
		pages = kvcalloc(nr_pages, sizeof(*pages), GFP_KERNEL);
}

u32 rem_registry_pages(void)
{
	return pages ? nr_pages : 0;
}

u32 rem_registry_files(void)
{
	return pages ? nr_files : 0;
}

u32 rem_registry_used(void)
{
	return READ_ONCE(used_pages);
}

static bool pages_are_above(u32 eighths)
{
	return READ_ONCE(used_pages) > rem_registry_pages() / 8 * eighths;
}

static bool files_are_above(u32 eighths)
{
	return READ_ONCE(used_files) > rem_registry_files() / 8 * eighths;
}

/**
 * rem_registry_fills - whether it is time to drain
 *
 * Late, since what is drained is registered again at its next fsync; but while a drain
 * waits for disks, fsyncs go on.
 *
 * Return: true if it is.
 */
bool rem_registry_fills(void)
{
	return pages_are_above(7) || rem_registry_files_fill();
}

/** rem_registry_files_fill - Return: whether there is soon no room for more files */
bool rem_registry_files_fill(void)
{
	return files_are_above(7);
}

/** rem_registry_is_half_full - Return: whether a drain would give room for long */
bool rem_registry_is_half_full(void)
{
	return pages_are_above(4) || files_are_above(4);
}

const void *rem_registry_bytes(size_t *ret_bytes)
{
	*ret_bytes = registry_bytes;
	return base;
}

static int take(unsigned long *taken, u32 count, u32 *from)
{
	unsigned long at;

	spin_lock(&free_lock);
	at = find_next_zero_bit(taken, count, *from);
	if (at >= count)
		at = find_first_zero_bit(taken, count);
	if (at < count) {
		__set_bit(at, taken);
		*from = at + 1;
		if (taken == pages_taken)
			used_pages++;
		else
			used_files++;
	}
	spin_unlock(&free_lock);
	return at < count ? at : -ENOSPC;
}

/* Only of memory that keeps its content, and that a page of user data may be in. */
static bool can_stay(u64 phys)
{
	return !e820__mapped_raw_any(phys, phys + PAGE_SIZE, E820_TYPE_RAM);
}

/**
 * rem_entry_take - register a page
 * @id: of its file
 * @index: its index there
 * @page: is held until rem_entry_drop()
 *
 * Nobody finds the entry before rem_entry_acknowledge(): until the page is in NVRAM, what is
 * there is of who had that memory before.
 *
 * Return: number of the entry or a negative errno.
 */
int rem_entry_take(u64 id, pgoff_t index, struct page *page)
{
	struct rem_registry_page new = {
		.id = id,
		.index = index,
		.phys = page_to_phys(page),
		.content_state = REM_PAGE_CHANGING,
	};
	int at;

	if (!can_stay(new.phys))
		return -ENODEV;
	at = take(pages_taken, nr_pages, &search_from);
	if (at < 0)
		return at;
	get_page(page);
	pages[at] = page;
	new.crc = rem_checksum(&new, offsetof(struct rem_registry_page, crc));
	new.id = 0;
	entries[at] = new;
	return at;
}

/* What the cheaper policy may leave in caches. */
static void keep(const void *at, size_t bytes)
{
	if (!READ_ONCE(in_caches))
		write_back(at, bytes);
}

static void keep_entry(u32 entry)
{
	keep(&entries[entry], sizeof(entries[entry]));
}

static void set_content(u32 entry, u32 crc, u32 state)
{
	u64 word = (u64)state << 32 | crc;

	WRITE_ONCE(*(u64 *)&entries[entry].content_crc, word);
}

/**
 * rem_registry_keep - write a page back to NVRAM that is being acknowledged
 * @page: its content may stay in caches by the cheaper policy
 */
void rem_registry_keep(struct page *page)
{
	keep(page_address(page), PAGE_SIZE);
}

/**
 * rem_entry_acknowledge - the entry counts from now on
 * @entry: its page is in NVRAM
 * @id: of its file, as it was taken with
 * @steady: the page has not changed since
 * @crc: of its content
 *
 * The file comes last of an entry's stores, which reach NVRAM in their order, as they are
 * to one line.
 */
void rem_entry_acknowledge(u32 entry, u64 id, bool steady, u32 crc)
{
	if (steady)
		set_content(entry, crc, REM_PAGE_STEADY);
	barrier();
	WRITE_ONCE(entries[entry].id, id);
	keep_entry(entry);
}

/** rem_entry_renew - a drain that has begun does not bring this content to the disk */
void rem_entry_renew(u32 entry)
{
	epochs[entry] = atomic64_read(&rem_epoch);
}

/**
 * rem_entry_changing - the page is about to change
 *
 * In NVRAM when it returns, unless all stays in caches: a change that reached it before
 * would look like damage.
 *
 * Context: RCU reader, any but NMI.
 */
void rem_entry_changing(u32 entry)
{
	u64 word = READ_ONCE(*(u64 *)&entries[entry].content_crc);

	if (word >> 32 == REM_PAGE_CHANGING)
		return;
	set_content(entry, (u32)word, REM_PAGE_CHANGING);
	keep_entry(entry);
	if (!READ_ONCE(in_caches))
		rem_registry_fence();
}

/** rem_entry_drop - the disk has the page */
void rem_entry_drop(u32 entry)
{
	struct page *page = pages[entry];

	WRITE_ONCE(entries[entry].id, 0);
	write_back(&entries[entry], sizeof(entries[entry]));
	/* Before anybody else may have the page. */
	rem_registry_fence();
	spin_lock(&free_lock);
	pages[entry] = NULL;
	__clear_bit(entry, pages_taken);
	used_pages--;
	spin_unlock(&free_lock);
	put_page(page);
}

/* Return: the page of an entry that is used, referenced, or NULL. */
static struct page *get_page_of(u32 entry)
{
	struct page *page;

	spin_lock(&free_lock);
	page = pages[entry];
	if (page)
		get_page(page);
	spin_unlock(&free_lock);
	return page;
}

/* Pages that may have changed since they were acknowledged, or @all with their entries. */
static void write_back_pages(bool all)
{
	struct page *page;
	u32 i;

	for (i = 0; i < rem_registry_pages(); i++) {
		cond_resched();
		if (!all && READ_ONCE(entries[i].content_state) !=
				    REM_PAGE_CHANGING)
			continue;
		page = get_page_of(i);
		if (!page)
			continue;
		write_back(page_address(page), PAGE_SIZE);
		put_page(page);
	}
	rem_registry_fence();
	if (!all)
		return;
	/* After the data, as ever. */
	write_back(base, tables_bytes(nr_files, nr_pages));
	rem_registry_fence();
}

/**
 * rem_registry_leave_in_caches - choose the policy
 * @leave: what is acknowledged from now on need not be in NVRAM; else it is to be, and
 *	when this returns so is all that was acknowledged before
 *
 * Context: process; nothing is acknowledged meanwhile.
 */
void rem_registry_leave_in_caches(bool leave)
{
	if (leave == in_caches || !rem_registry_pages())
		return;
	if (!leave) {
		WRITE_ONCE(in_caches, false);
		/* Who has noted a change without writing the entry back. */
		synchronize_rcu();
		write_back_pages(true);
	}
	WRITE_ONCE(policy->in_caches, leave ? REM_REGISTRY_IN_CACHES : 0);
	write_back(policy, sizeof(*policy));
	rem_registry_fence();
	WRITE_ONCE(in_caches, leave);
}

/**
 * __rem_persist_synced - sync(2), syncfs(2), or who freezes a file system has written it
 *
 * Registered pages stay so, but who has synced was promised what the disk has now: a
 * replay must not write what NVRAM had of them before.
 *
 * Context: process.
 */
void __rem_persist_synced(void)
{
	write_back_pages(READ_ONCE(in_caches));
}

struct page *rem_entry_page(u32 entry)
{
	return pages[entry];
}

u64 rem_entry_epoch(u32 entry)
{
	return epochs[entry];
}

/**
 * rem_record_take - room for the record of a file
 * @ret_id: names the file
 *
 * Return: number of the record or a negative errno.
 */
int rem_record_take(u64 *ret_id)
{
	static u32 from;
	int slot = take(files_taken, nr_files, &from);

	if (slot < 0)
		return slot;
	spin_lock(&free_lock);
	*ret_id = ++last_id;
	spin_unlock(&free_lock);
	return slot;
}

/**
 * rem_record_write - the next copy of a file's record
 * @slot: of the file
 * @record: gets its sequence and checksum
 * @first: the registry has none of it; this one is written back by each policy, so that
 *	a replay can name the file
 */
void rem_record_write(u32 slot, struct rem_registry_file *record, bool first)
{
	struct rem_registry_file *copy = files + slot * REM_REGISTRY_COPIES;

	record->sequence++;
	record->crc = rem_checksum(record,
				   offsetof(struct rem_registry_file, crc));
	copy += record->sequence % REM_REGISTRY_COPIES;
	*copy = *record;
	if (first)
		write_back(copy, sizeof(*copy));
	else
		keep(copy, sizeof(*copy));
}

/** rem_record_drop - the file has no registered pages any more */
void rem_record_drop(u32 slot)
{
	struct rem_registry_file *copy = files + slot * REM_REGISTRY_COPIES;

	memset(copy, 0, REM_REGISTRY_COPIES * sizeof(*copy));
	write_back(copy, REM_REGISTRY_COPIES * sizeof(*copy));
}

/** rem_record_give - undo rem_record_take() */
void rem_record_give(u32 slot)
{
	spin_lock(&free_lock);
	__clear_bit(slot, files_taken);
	used_files--;
	spin_unlock(&free_lock);
}
