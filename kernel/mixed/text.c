// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's text and read-only data. Nobody stores to them but __text_poke(), so DRAM may
 * have copies of their pages, which cost a Stop no copy: their homes stay where they are,
 * and the addresses are mapped to the copy or to the home.
 *
 *   text_copies[number]	its frame + 1, or 0
 *
 * The mapping is split into small pages when the first scan runs, since most of the text
 * is cold. An entry has an accessed bit like all others, and the heat of the page is that of
 * programs' pages; who is hotter gets the frame.
 *
 * Go begins in the text while DRAM is blank. So Stop makes all entries map the homes, when
 * no other CPU runs anything but Stop, and before any CPU writes back its caches. What TLBs
 * have is the copy still, which has the same bytes. Go fills the copies like all frames, and
 * the next scan maps them again.
 *
 * What __text_poke() has changed at home it changes in the copy, too, before any CPU may
 * execute it: rem_mixed_poked(). text_mutex keeps it from copies that begin just then.
 */
#include <linux/highmem.h>
#include <linux/kernel.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/vmalloc.h>
#include <asm/sections.h>
#include <asm/set_memory.h>
#include <asm/tlbflush.h>

#include "../machine.h"
#include "mixed.h"
#include "rem_dram_trace.h"

/* Of the kernel's image. What is between them the allocator has. */
static struct {
	unsigned long start, end; /* addresses */
	unsigned int first; /* number of the first page */
} parts[2];

static u32 *text_copies;
static unsigned int text_count;
static unsigned int used;
static bool is_split;
static u64 home_ns; /* that rem_text_home() takes at most */

#define PROBE_ROUNDS 5

static unsigned long address_of(unsigned int number)
{
	unsigned int part = number >= parts[1].first;

	return parts[part].start + (number - parts[part].first) * PAGE_SIZE;
}

/* UINT_MAX: it is no address of them. */
static unsigned int number_of(unsigned long address)
{
	unsigned int part;

	for (part = 0; part < ARRAY_SIZE(parts); part++)
		if (address >= parts[part].start && address < parts[part].end)
			return parts[part].first + PHYS_PFN(address - parts[part].start);
	return UINT_MAX;
}

static unsigned long home_of(unsigned int number)
{
	return PHYS_PFN(__pa_symbol(address_of(number)));
}

/* NULL if it is a part of a large page. */
static pte_t *entry_of(unsigned int number)
{
	unsigned int level;
	pte_t *pte = lookup_address(address_of(number), &level);

	return pte && level == PG_LEVEL_4K && pte_present(*pte) ? pte : NULL;
}

/* Hardware sets its accessed bit meanwhile, which may be lost: it is a hint. */
static void map(pte_t *pte, unsigned long pfn)
{
	set_pte(pte, pfn_pte(pfn, pte_pgprot(*pte)));
}

/*
 * All map their homes, and count as used: hardware would mark them, when the caches have
 * been written back.
 */
static void all_home(void)
{
	unsigned int number;

	for (number = 0; number < text_count; number++) {
		pte_t *pte = entry_of(number);

		if (pte)
			set_pte(pte, pte_mkyoung(pfn_pte(home_of(number), pte_pgprot(*pte))));
	}
}

/* The shortest of some rounds, as frames.c has it; twice that. */
static u64 time_home(void)
{
	u64 shortest_ns = U64_MAX;
	unsigned int i;

	for (i = 0; i < PROBE_ROUNDS; i++) {
		u64 begin = rem_ticks();

		all_home();
		shortest_ns = min(shortest_ns, rem_mixed_ns_since(begin));
	}
	return 2 * shortest_ns;
}

/* Split the mapping, once. Return: whether it is, and a Stop has the time for it. */
static bool split(void)
{
	unsigned int part, pages;

	/* Until then the kernel itself changes how its text is mapped. */
	if (is_split || system_state != SYSTEM_RUNNING || !text_count)
		return is_split;
	for (part = 0; part < ARRAY_SIZE(parts); part++) {
		pages = PHYS_PFN(parts[part].end - parts[part].start);
		if (set_memory_4k(parts[part].start, pages)) {
			text_count = 0;
			return false;
		}
	}
	home_ns = time_home();
	if (rem_budget_hold_up_ns() && rem_budget_bound_ns() > rem_budget_hold_up_ns()) {
		home_ns = 0;
		text_count = 0;
		return false;
	}
	is_split = true;
	rem_promise_update();
	return true;
}

static void make_copy(unsigned int number, pte_t *pte)
{
	struct page *page = pfn_to_page(home_of(number));
	struct page *frame = rem_frame_lend(page);

	if (!frame)
		return;
	copy_page(page_address(frame), page_address(page));
	unlock_page(frame);
	WRITE_ONCE(text_copies[number], rem_frame_number(frame) + 1);
	used++;
	smp_wmb(); /* a Stop that finds the entry finds the copy */
	map(pte, page_to_pfn(frame));
	atomic64_inc(&rem_mixed_counts.text_copied);
	trace_dram_copy(page_to_pfn(page), page_to_pfn(frame), REM_DRAM_SCAN);
}

static void end_copy(unsigned int number, pte_t *pte)
{
	struct page *frame = rem_frame_of(text_copies[number] - 1);

	map(pte, home_of(number));
	WRITE_ONCE(text_copies[number], 0);
	used--;
	trace_dram_end(home_of(number), page_to_pfn(frame), REM_DRAM_SCAN);
	rem_map_rest(frame);
}

/* Most are not: their lines stay as they are. Return: whether a page was used. */
static bool take_use(pte_t *pte)
{
	return pte_young(*pte) &&
	       test_and_clear_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&pte->pte);
}

/* Return: whether TLBs have to be flushed, so that its next use is seen. */
static bool look_at(unsigned int number, bool leave)
{
	pte_t *pte = entry_of(number);
	unsigned long pfn = home_of(number);
	bool young;

	if (!pte)
		return false;
	young = take_use(pte);
	if (!text_copies[number]) {
		if (young && !leave && rem_heat_is_hot(pfn))
			make_copy(number, pte);
		return young;
	}
	if (rem_heat_is_cold(pfn, young, text_copies[number] - 1) || leave)
		end_copy(number, pte);
	else if (pte_pfn(*pte) == pfn) /* since a Stop */
		map(pte, page_to_pfn(rem_frame_of(text_copies[number] - 1)));
	return young;
}

/** rem_text_forget - the next scan sees only uses from now on. Context: the thread. */
void rem_text_forget(void)
{
	unsigned int number;
	bool flush = false;

	if (!is_split)
		return;
	mutex_lock(&text_mutex);
	for (number = 0; number < text_count; number++) {
		pte_t *pte = entry_of(number);

		if (pte)
			flush |= take_use(pte);
	}
	mutex_unlock(&text_mutex);
	if (flush)
		flush_tlb_kernel_range(parts[0].start, parts[1].end);
}

/**
 * rem_text_scan - look at all pages of the kernel's text, and move some
 * @leave: none may be in DRAM
 *
 * Context: the thread.
 */
void rem_text_scan(bool leave)
{
	unsigned int number;
	bool flush = false;

	if (!(leave ? is_split : split()))
		return;
	mutex_lock(&text_mutex);
	for (number = 0; number < text_count; number++)
		flush |= look_at(number, leave);
	mutex_unlock(&text_mutex);
	/* Its entries are global: no switch of processes makes TLBs forget them. */
	if (flush)
		flush_tlb_kernel_range(parts[0].start, parts[1].end);
}

/** rem_text_used - Return: frames that copies of the kernel's text have. */
unsigned int rem_text_used(void)
{
	return READ_ONCE(used);
}

/** rem_text_bound_ns - Return: what rem_text_home() adds to a Stop at most. Context: any. */
u64 rem_text_bound_ns(void)
{
	return READ_ONCE(home_ns);
}

/** rem_text_has - Return: whether a page is one of the kernel's text, by its number */
bool rem_text_has(unsigned long pfn)
{
	return text_count && pfn >= PHYS_PFN(__pa_symbol(parts[0].start)) &&
	       pfn < PHYS_PFN(__pa_symbol(parts[1].end));
}

/**
 * rem_text_home - Stop: the text is in NVRAM when Go begins
 *
 * Context: one CPU, interrupts off, all others run nothing but Stop.
 */
void rem_text_home(void)
{
	if (!is_split)
		return;
	all_home();
}

void __rem_mixed_poked(const void *addr, size_t bytes)
{
	unsigned long at = (unsigned long)addr;

	while (bytes) {
		size_t part = min_t(size_t, bytes, PAGE_SIZE - offset_in_page(at));
		unsigned int number = number_of(at);
		u32 copy = number < text_count ? READ_ONCE(text_copies[number]) : 0;

		if (copy)
			memcpy(page_address(rem_frame_of(copy - 1)) + offset_in_page(at),
			       __va(__pa_symbol(at)), part);
		at += part;
		bytes -= part;
	}
}

/**
 * rem_text_open - memory for what is known of each page
 *
 * Return: 0 or -ENOMEM.
 */
int __init rem_text_open(void)
{
	unsigned int count;

	parts[0].start = (unsigned long)_text;
	parts[0].end = PAGE_ALIGN_DOWN((unsigned long)_etext);
	parts[1].start = PAGE_ALIGN((unsigned long)__start_rodata);
	parts[1].end = PAGE_ALIGN_DOWN((unsigned long)__end_rodata);
	parts[1].first = PHYS_PFN(parts[0].end - parts[0].start);
	count = parts[1].first + PHYS_PFN(parts[1].end - parts[1].start);
	text_copies = vzalloc(array_size(count, sizeof(*text_copies)));
	if (!text_copies)
		return -ENOMEM;
	text_count = count;
	return 0;
}
