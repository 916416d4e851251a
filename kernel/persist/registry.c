// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registry's bytes (rem_registry.h). Each entry and each word of it is written
 * such that a reader finds the old or the new one, whatever has reached memory.
 */
#include <linux/bitmap.h>
#include <linux/crc32c.h>
#include <linux/io.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include <asm/e820/api.h>

#include "../machine.h"
#include "../pm/rem_pm.h"
#include "persist.h"

/* Where the superblock of such a region may be (asm/shared/pm_place.h). */
#define PM_ALIGN 0x200000ull

static struct rem_registry *head;
static struct rem_registry_file *files;
static struct rem_registry_page *entries;
static void *base;
static size_t registry_bytes;
static u32 nr_files, nr_pages;

/* What is not in NVRAM, since the next kernel does not need it. */
static DEFINE_SPINLOCK(free_lock);
static unsigned long *pages_taken, *files_taken;
static struct page **pages;
static u64 *epochs;
static u32 used_pages, search_from;
static u64 last_id;

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
	       head->crc == ~crc32c(~0, head,
				    offsetof(struct rem_registry, crc));
}

static size_t tables_bytes(u32 nr_files, u32 nr_pages)
{
	return nr_files * REM_REGISTRY_COPIES * sizeof(*files) +
	       nr_pages * sizeof(*entries);
}

/* As many pages as fit, beside a file for each 16 of them. */
static void choose_counts(size_t bytes)
{
	size_t each = 16 * (sizeof(*entries) + PAGE_SIZE) +
		      REM_REGISTRY_COPIES * sizeof(*files);

	nr_files = min_t(size_t, (bytes - PAGE_SIZE) / each,
			 REM_REGISTRY_FILES_MAX);
	nr_pages = nr_files * 16;
}

static void place_tables(size_t bytes)
{
	void *end = (void *)head + PAGE_SIZE;

	registry_bytes = bytes;
	base = end - bytes;
	files = base;
	entries = base + nr_files * REM_REGISTRY_COPIES * sizeof(*files);
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

/**
 * rem_registry_open - find what the loader has put aside
 *
 * Return: 0, -ENODEV if it is nothing, -EBUSY if persistent memory is there, or
 * another negative errno.
 */
int __init rem_registry_open(void)
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
	if (head_is_right(end - start)) {
		nr_files = head->files;
		nr_pages = head->pages;
		if (tables_bytes(nr_files, nr_pages) +
		    (nr_pages + 1ul) * PAGE_SIZE <= head->bytes) {
			place_tables(head->bytes);
			return 0;
		}
	}
	if (has_pm_region(start, end)) {
		memunmap(whole);
		return -EBUSY;
	}
	choose_counts(end - start);
	place_tables(end - start);
	memset(base, 0, tables_bytes(nr_files, nr_pages));
	return 0;
}

/** rem_registry_found - Return: whether pages of an earlier kernel are in it */
bool rem_registry_found(void)
{
	u32 i;

	if (!head_is_right(registry_bytes))
		return false;
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
	size_t tables = tables_bytes(nr_files, nr_pages);
	struct rem_registry new = {
		.magic = REM_REGISTRY_MAGIC,
		.version = REM_REGISTRY_VERSION,
		.files = nr_files,
		.bytes = registry_bytes,
		.pages = nr_pages,
	};

	memset(base, 0, tables);
	write_back(base, tables);
	rem_registry_fence();
	new.crc = ~crc32c(~0, &new, offsetof(struct rem_registry, crc));
	*head = new;
	write_back(head, sizeof(*head));
	rem_registry_fence();
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
 * The entry counts once it is written back, which this begins, and its content's
 * checksum is set.
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
	new.crc = ~crc32c(~0, &new, offsetof(struct rem_registry_page, crc));
	entries[at] = new;
	return at;
}

static void set_content(u32 entry, u32 crc, u32 state)
{
	u64 word = (u64)state << 32 | crc;

	WRITE_ONCE(*(u64 *)&entries[entry].content_crc, word);
	write_back(&entries[entry], sizeof(entries[entry]));
}

/** rem_entry_steady - the page's content is acknowledged by its checksum */
void rem_entry_steady(u32 entry, u32 crc)
{
	set_content(entry, crc, REM_PAGE_STEADY);
}

/** rem_entry_renew - a drain that has begun does not bring this content to the disk */
void rem_entry_renew(u32 entry)
{
	epochs[entry] = atomic64_read(&rem_epoch);
}

/**
 * rem_entry_changing - the page is about to change
 *
 * In NVRAM when it returns: a change that reached it before would look like damage.
 *
 * Context: any but NMI.
 */
void rem_entry_changing(u32 entry)
{
	u64 word = READ_ONCE(*(u64 *)&entries[entry].content_crc);

	if (word >> 32 == REM_PAGE_CHANGING)
		return;
	set_content(entry, (u32)word, REM_PAGE_CHANGING);
	rem_registry_fence();
}

/** rem_entry_drop - the disk has the page */
void rem_entry_drop(u32 entry)
{
	struct page *page = pages[entry];

	WRITE_ONCE(entries[entry].id, 0);
	write_back(&entries[entry], sizeof(entries[entry]));
	pages[entry] = NULL;
	put_page(page);
	spin_lock(&free_lock);
	__clear_bit(entry, pages_taken);
	used_pages--;
	spin_unlock(&free_lock);
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
 */
void rem_record_write(u32 slot, struct rem_registry_file *record)
{
	struct rem_registry_file *copy = files + slot * REM_REGISTRY_COPIES;

	record->sequence++;
	record->crc = ~crc32c(~0, record,
			      offsetof(struct rem_registry_file, crc));
	copy += record->sequence % REM_REGISTRY_COPIES;
	*copy = *record;
	write_back(copy, sizeof(*copy));
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
	spin_unlock(&free_lock);
}
