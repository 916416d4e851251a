// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: write windows
 *
 * The kernel's mappings of the region are read-only, so that a stray store
 * of any other code faults instead of damaging what is there. A writer opens a
 * window: some pages of kernel addresses, of this CPU only, that are mapped to
 * the place during the write.
 *
 * A CPU's window is its own by preemption being off. Others could reach it only by
 * its address, and only while it is open. CR0.WP, the other way to do this, must
 * not be cleared where shadow stacks or indirect branch tracking are on.
 *
 * Where a large page of the kernel's mapping holds more than the region (memory of
 * reserve_mem= on a machine with pages of 1 GiB) the mapping stays writable, and
 * the status says so. So do the large pages that have some of a segment whose disk has
 * direct access: pages of it are lent.
 */
#include <linux/export.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>

#include <asm/tlbflush.h>

#include "pmcore.h"

#define WINDOW_PAGES 16

static bool protect = true;
module_param(protect, bool, 0444);
MODULE_PARM_DESC(protect, "map the region for reading only, but for windows");

struct window {
	void *at;
	pte_t *entry[WINDOW_PAGES];
};

static DEFINE_PER_CPU(struct window, windows);
static DEFINE_PER_CPU(u64, opened);
static struct page *filler; /* what the windows are made with */
static pteval_t first; /* entry of the region's first page, were it mapped for writing */

static int make_window(struct window *window, struct page **pages)
{
	unsigned int level, i;

	window->at = vmap(pages, WINDOW_PAGES, VM_MAP, PAGE_KERNEL);
	if (!window->at)
		return -ENOMEM;
	for (i = 0; i < WINDOW_PAGES; i++) {
		unsigned long at = (unsigned long)window->at + i * PAGE_SIZE;

		window->entry[i] = lookup_address(at, &level);
		if (!window->entry[i] || level != PG_LEVEL_4K)
			return -EOPNOTSUPP;
		set_pte(window->entry[i], __pte(0));
	}
	return 0;
}

static void flush_here(void *unused)
{
	__flush_tlb_all();
}

static void protect_entry(pte_t *entry, bool writable)
{
	pte_t now = READ_ONCE(*entry);

	if (writable)
		now = pte_clear_saveddirty(pte_mkwrite_novma(now));
	else
		now = pte_wrprotect(now);
	set_pte(entry, now);
}

/* All entries from @at on; the end of what was done. */
static void *change_mapping(void *at, void *end, bool writable)
{
	while (at < end) {
		unsigned int level;
		pte_t *entry = lookup_address((unsigned long)at, &level);
		unsigned long bytes = entry ? page_level_size(level) : 0;

		if (!bytes || !IS_ALIGNED((unsigned long)at, bytes) ||
		    bytes > end - at)
			break;
		protect_entry(entry, writable);
		at += bytes;
	}
	on_each_cpu(flush_here, NULL, 1);
	return at;
}

static void windows_free(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		vunmap(per_cpu(windows, cpu).at);
		per_cpu(windows, cpu).at = NULL;
	}
	if (filler)
		__free_page(filler);
	filler = NULL;
}

static int windows_make(void)
{
	struct page *pages[WINDOW_PAGES];
	int cpu, err = 0;

	filler = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!filler)
		return -ENOMEM;
	for (cpu = 0; cpu < WINDOW_PAGES; cpu++)
		pages[cpu] = filler;
	for_each_possible_cpu(cpu) {
		err = make_window(per_cpu_ptr(&windows, cpu), pages);
		if (err)
			break;
	}
	on_each_cpu(flush_here, NULL, 1);
	if (err)
		windows_free();
	return err;
}

/**
 * pmcore_protect() - map the region read-only
 *
 * What cannot be protected is left as it was, and logged.
 *
 * Context: may sleep; nobody writes to the region yet.
 * Return: 0 or -ENOMEM.
 */
int pmcore_protect(void)
{
	void *alias = pmcore.alias, *done;
	int err;

	if (!protect) {
		pmcore.base = alias;
		return 0;
	}
	err = windows_make();
	if (err)
		return err;
	first = pte_val(pfn_pte(PHYS_PFN(pmcore.phys), PAGE_KERNEL));
	done = change_mapping(alias, alias + pmcore.bytes, false);
	if (done == alias + pmcore.bytes) {
		pmcore.protected = true;
		return 0;
	}
	change_mapping(alias, done, true);
	windows_free();
	pmcore.base = alias;
	pr_info("pmcore: %s: shares a page of the kernel's mapping with other memory: no protection against stray stores\n",
		pmcore.source);
	return 0;
}

/**
 * pmcore_unprotect() - undo pmcore_protect()
 */
void pmcore_unprotect(void)
{
	if (!pmcore.protected)
		return;
	pmcore.protected = false;
	change_mapping(pmcore.alias, pmcore.alias + pmcore.bytes, true);
	windows_free();
}

/**
 * pmcore_window_open() - where to write what belongs at a place of the region
 * @to: the place, in the mapping that is for reading
 * @bytes: how much; on return at most as much as a window holds
 *
 * Context: any but interrupts; preemption is off until pmcore_window_close().
 */
void *pmcore_window_open(void *to, size_t *bytes)
{
	pteval_t entry = first + ((to - pmcore.base) & PAGE_MASK);
	size_t offset = offset_in_page(to);
	struct window *window;
	unsigned int pages, i;

	*bytes = min(*bytes, WINDOW_PAGES * PAGE_SIZE - offset);
	pages = PFN_UP(offset + *bytes);
	window = &get_cpu_var(windows);
	for (i = 0; i < pages; i++, entry += PAGE_SIZE)
		set_pte(window->entry[i], __pte(entry));
	__this_cpu_inc(opened);
	return window->at + offset;
}

/**
 * pmcore_window_close() - undo pmcore_window_open()
 * @at: what it returned
 * @bytes: what it left in its argument
 */
void pmcore_window_close(void *at, size_t bytes)
{
	struct window *window = this_cpu_ptr(&windows);
	unsigned int pages = PFN_UP(offset_in_page(at) + bytes);
	unsigned int i;

	for (i = 0; i < pages; i++) {
		unsigned long address = (unsigned long)window->at + i * PAGE_SIZE;

		set_pte(window->entry[i], __pte(0));
		asm volatile("invlpg (%0)" : : "r"(address) : "memory");
	}
	put_cpu_var(windows);
}

/**
 * pmcore_window_store64() - open a window, store one aligned word, close it
 * @to: the place, in the mapping that is for reading
 * @value: what is stored
 *
 * Context: any but interrupts.
 */
void pmcore_window_store64(void *to, u64 value)
{
	struct window *window = &get_cpu_var(windows);
	pteval_t entry = first + ((to - pmcore.base) & PAGE_MASK);

	set_pte(window->entry[0], __pte(entry));
	__this_cpu_inc(opened);
	WRITE_ONCE(*(u64 *)(window->at + offset_in_page(to)), value);
	set_pte(window->entry[0], __pte(0));
	asm volatile("invlpg (%0)" : : "r"(window->at) : "memory");
	put_cpu_var(windows);
}

/**
 * pmcore_windows_opened() - how often, for those who count costs
 */
u64 pmcore_windows_opened(void)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(opened, cpu);
	return sum;
}

static DEFINE_MUTEX(lend_lock);

static bool is_lent(u64 offset, u64 bytes)
{
	u32 slot;

	for (slot = 0; slot < pmcore.region.super.slots; slot++) {
		const struct rem_pm_segment *record =
			&pmcore.region.entry[slot].record;

		if (pmcore.slot[slot].lent && record->offset < offset + bytes &&
		    offset < record->offset + record->extent_bytes)
			return true;
	}
	return false;
}

/* The entries of the kernel's mapping that have some of these bytes. */
static void lend(void *at, u64 bytes, bool writable)
{
	void *end = at + bytes;

	while (at < end) {
		unsigned int level;
		pte_t *entry = lookup_address((unsigned long)at, &level);
		unsigned long size = page_level_size(level);

		at = PTR_ALIGN_DOWN(at, size);
		if (writable || !is_lent(at - pmcore.alias, size))
			protect_entry(entry, writable);
		at += size;
	}
	on_each_cpu(flush_here, NULL, 1);
}

/**
 * pmcore_writable() - a mapping of a segment that may be written to
 * @segment: the segment, held
 *
 * For direct access by file systems, which store through addresses that they are
 * given. They lend pages of it, too, to whom the kernel stores by its own mapping
 * (O_DIRECT from a disk that is memory, a debugger): so it is that one which may be
 * written to, by whole entries of the page table, also beside the segment.
 *
 * Context: may sleep.
 */
void *pmcore_writable(const struct pmcore_segment *segment)
{
	void *at = pmcore.alias + (segment->at - pmcore.base);

	if (!pmcore.protected)
		return at;
	mutex_lock(&lend_lock);
	pmcore.slot[segment->slot].lent = true;
	lend(at, segment->bytes, true);
	mutex_unlock(&lend_lock);
	return at;
}
EXPORT_SYMBOL_GPL(pmcore_writable);

/**
 * pmcore_writable_end() - undo pmcore_writable()
 * @segment: the segment
 */
void pmcore_writable_end(const struct pmcore_segment *segment)
{
	void *at = pmcore.alias + (segment->at - pmcore.base);

	if (!pmcore.protected)
		return;
	mutex_lock(&lend_lock);
	pmcore.slot[segment->slot].lent = false;
	lend(at, segment->bytes, false);
	mutex_unlock(&lend_lock);
}
EXPORT_SYMBOL_GPL(pmcore_writable_end);
