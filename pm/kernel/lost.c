// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: lines that media has lost
 *
 * An uncorrectable error of media is a machine check of who loads from it. The core
 * loads by pm_fetch(), pm_load64() and pm_fetch_crc32c() only, which survive that where
 * the CPU can recover, and give nothing out. What they meet is listed here by sectors,
 * for raw segments; blocks have a list of their own (pmbc). A write of a whole sector
 * takes it off the list.
 *
 * For tests (PM_TESTS) a line is lost by the parameter lost_line: a load from it faults,
 * until a store covers it.
 */
#include <linux/badblocks.h>
#include <linux/blk_types.h>
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/asm.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>
#include <asm/tlbflush.h>

#include "pmcore.h"

struct badblocks pmcore_lost;
static bool strings_survive __ro_after_init;

#ifdef PM_TESTS
#define NO_LINE ULONG_MAX

DEFINE_STATIC_KEY_FALSE(pmcore_line_lost);
EXPORT_SYMBOL_GPL(pmcore_line_lost);
static ulong lost_line = NO_LINE;

static int set_lost_line(const char *value, const struct kernel_param *param)
{
	int err = param_set_ulong(value, param);

	/* Off only by rmmod: who stores to the line may not wait. */
	if (!err && lost_line != NO_LINE)
		static_branch_enable(&pmcore_line_lost);
	return err;
}

static const struct kernel_param_ops lost_line_ops = {
	.set = set_lost_line,
	.get = param_get_ulong,
};
module_param_cb(lost_line, &lost_line_ops, &lost_line, 0600);
MODULE_PARM_DESC(lost_line, "for tests: offset of a line of 64 bytes that media has lost");

static void *edge; /* a page, behind which nothing is mapped */
static struct page *edge_page;

/**
 * pmcore_readable_still() - how much there is before the line that a test has lost
 * @from: what is to be read
 * @bytes: how much of it
 */
size_t pmcore_readable_still(const void *from, size_t bytes)
{
	unsigned long line = READ_ONCE(lost_line);
	unsigned long at = from - pmcore.base;

	if (line == NO_LINE || line + PM_LINE_BYTES <= at || line >= at + bytes)
		return bytes;
	return line > at ? line - at : 0;
}
EXPORT_SYMBOL_GPL(pmcore_readable_still);

/**
 * pmcore_media_left() - where to load from
 * @from: what is to be read
 * @bytes: how much of it
 *
 * That there is a fault is up to the CPU, and that it is survived to the loads.
 *
 * Return: @from. Where a test has lost something of it, a place at which a load of as
 * much faults in the middle, or at once.
 */
const void *pmcore_media_left(const void *from, size_t bytes)
{
	size_t good = pmcore_readable_still(from, bytes);

	if (good == bytes)
		return from;
	return edge + PAGE_SIZE - min(good, PAGE_SIZE);
}

static void test_exit(void)
{
	vunmap(edge);
	edge = NULL;
	if (edge_page)
		__free_page(edge_page);
	edge_page = NULL;
}

static void flush_here(void *unused)
{
	__flush_tlb_all();
}

/* Not the gap that vmalloc() leaves behind what it gives: KASAN looks after that. */
static int test_init(void)
{
	struct page *pages[2];
	unsigned int level;
	pte_t *behind = NULL;

	edge_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	pages[0] = edge_page;
	pages[1] = edge_page;
	edge = edge_page ? vmap(pages, 2, VM_MAP, PAGE_KERNEL) : NULL;
	if (edge)
		behind = lookup_address((unsigned long)edge + PAGE_SIZE,
					&level);
	if (!behind || level != PG_LEVEL_4K)
		return -ENOMEM;
	set_pte(behind, __pte(0));
	on_each_cpu(flush_here, NULL, 1);
	return 0;
}

void pmcore_heal(const void *to, size_t bytes)
{
	unsigned long at = to - pmcore.base;
	unsigned long line = READ_ONCE(lost_line);

	if (line != NO_LINE && line >= at && line + PM_LINE_BYTES <= at + bytes)
		WRITE_ONCE(lost_line, NO_LINE);
}
#else
static int test_init(void)
{
	return 0;
}

static void test_exit(void)
{
}
#endif

/*
 * Whether a string instruction can be recovered from a machine check. Not on the servers
 * for which the kernel has copy_mc_fragile() (arch/x86/kernel/quirks.c, by their PCI
 * devices); it does not say so, so all CPUs of their models are left to it.
 */
static bool __init strings_recover(void)
{
	const struct cpuinfo_x86 *cpu = &boot_cpu_data;

	if (!boot_cpu_has(X86_FEATURE_ERMS))
		return false;
	if (cpu->x86_vendor != X86_VENDOR_INTEL || cpu->x86 != 6)
		return true;
	switch (cpu->x86_model) {
	case 0x3e: /* Ivy Bridge */
	case 0x3f: /* Haswell */
	case 0x4f: /* Broadwell */
	case 0x55: /* Skylake to Cooper Lake */
		return false;
	}
	return true;
}

/* As many whole words as media has. By words, since nothing in media is torn then. */
static size_t words_left(void *to, const void *from, size_t words)
{
	asm volatile("1: rep movsq\n"
		     "2:\n"
		     _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT_MCE_SAFE)
		     : "+D"(to), "+S"(from), "+c"(words)
		     :
		     : "memory");
	return words;
}

bool pm_fetch(void *to, const void *from, size_t bytes)
{
	from = pmcore_media(from, bytes);
	if (strings_survive && !(bytes % sizeof(u64)))
		return !words_left(to, from, bytes / sizeof(u64));
	return !copy_mc_to_kernel(to, from, bytes);
}
EXPORT_SYMBOL_GPL(pm_fetch);

/**
 * pmcore_lost_find() - whether a read has failed because media has lost something
 * @from: what was read
 * @bytes: how much of it
 *
 * What is found is listed. Context: any but interrupts.
 */
bool pmcore_lost_find(const void *from, size_t bytes)
{
	const void *at = PTR_ALIGN_DOWN(from, PM_LINE_BYTES);
	u8 line[PM_LINE_BYTES];
	bool found = false;

	for (; at < from + bytes; at += PM_LINE_BYTES) {
		if (pm_fetch(line, at, sizeof(line)))
			continue;
		found = true;
		badblocks_set(&pmcore_lost, (at - pmcore.base) >> SECTOR_SHIFT, 1, 1);
		pr_warn_ratelimited("pmcore: %s: media has lost byte %lu\n",
				    pmcore.source,
				    (unsigned long)(at - pmcore.base));
	}
	return found;
}
EXPORT_SYMBOL_GPL(pmcore_lost_find);

/**
 * pmcore_lost_clear() - of pmcore_lost_write(), where there is a list
 * @to: where
 * @bytes: how much
 *
 * Those that are listed, and all of which is written, are made good before it. Context:
 * may sleep.
 */
void pmcore_lost_clear(const void *to, size_t bytes)
{
	unsigned long offset = to - pmcore.base;
	sector_t at = DIV_ROUND_UP(offset, SECTOR_SIZE);
	sector_t end = (offset + bytes) >> SECTOR_SHIFT;
	sector_t bad;
	int count;

	while (at < end &&
	       badblocks_check(&pmcore_lost, at, min_t(u64, end - at, INT_MAX), &bad,
			       &count)) {
		sector_t next = min(bad + count, end);

		at = max(at, bad);
		pmcore_poison_clear((u64)at << SECTOR_SHIFT,
				    (u64)(next - at) << SECTOR_SHIFT);
		at = next;
	}
}

/**
 * pmcore_lost_unlist() - of pmcore_lost_written(), where there is a list
 * @to: where
 * @bytes: how much
 */
void pmcore_lost_unlist(const void *to, size_t bytes)
{
	unsigned long at = to - pmcore.base;
	sector_t first = DIV_ROUND_UP(at, SECTOR_SIZE);
	sector_t end = (at + bytes) >> SECTOR_SHIFT;

	if (first < end)
		badblocks_clear(&pmcore_lost, first, end - first);
}

/**
 * pmcore_lost_show() - the list, as in sysfs: sector and number of sectors
 * @buf: a page
 */
ssize_t pmcore_lost_show(char *buf)
{
	return badblocks_show(&pmcore_lost, buf, 0);
}

/**
 * pmcore_lost_init() - a list of what the platform knows
 */
int __init pmcore_lost_init(void)
{
	int err = badblocks_init(&pmcore_lost, 1);

	strings_survive = strings_recover();
	if (err)
		return err;
	pmcore_poison_import(&pmcore_lost);
	return test_init();
}

/**
 * pmcore_lost_exit() - undo it
 */
void pmcore_lost_exit(void)
{
	test_exit();
	badblocks_exit(&pmcore_lost);
}
