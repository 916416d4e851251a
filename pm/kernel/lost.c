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
 * For tests (PM_TESTS) a line is lost by the parameter lost_line: it cannot be read
 * until a store covers it.
 */
#include <linux/badblocks.h>
#include <linux/blk_types.h>
#include <linux/export.h>
#include <linux/module.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

#include "pmcore.h"

static struct badblocks lost;

#ifdef PM_TESTS
#define NO_LINE ULONG_MAX

static ulong lost_line = NO_LINE;
module_param(lost_line, ulong, 0600);
MODULE_PARM_DESC(lost_line, "for tests: offset of a line of 64 bytes that media has lost");

/**
 * pmcore_readable() - how much there is before the line that a test has lost
 * @from: what is to be read
 * @bytes: how much of it
 */
size_t pmcore_readable(const void *from, size_t bytes)
{
	unsigned long line = READ_ONCE(lost_line);
	unsigned long at = from - pmcore.base;

	if (line == NO_LINE || line + PM_LINE_BYTES <= at || line >= at + bytes)
		return bytes;
	return line > at ? line - at : 0;
}
EXPORT_SYMBOL_GPL(pmcore_readable);

static void heal(unsigned long at, size_t bytes)
{
	unsigned long line = READ_ONCE(lost_line);

	if (line != NO_LINE && line >= at && line + PM_LINE_BYTES <= at + bytes)
		WRITE_ONCE(lost_line, NO_LINE);
}
#else
static void heal(unsigned long at, size_t bytes)
{
}
#endif

bool pm_fetch(void *to, const void *from, size_t bytes)
{
	return pmcore_readable(from, bytes) == bytes &&
	       !copy_mc_to_kernel(to, from, bytes);
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
		badblocks_set(&lost, (at - pmcore.base) >> SECTOR_SHIFT, 1, 1);
		pr_warn_ratelimited("pmcore: %s: media has lost byte %lu\n",
				    pmcore.source,
				    (unsigned long)(at - pmcore.base));
	}
	return found;
}
EXPORT_SYMBOL_GPL(pmcore_lost_find);

/**
 * pmcore_lost_written() - sectors that were stored to are there again
 * @to: where
 * @bytes: how much
 */
void pmcore_lost_written(const void *to, size_t bytes)
{
	unsigned long at = to - pmcore.base;
	sector_t first = DIV_ROUND_UP(at, SECTOR_SIZE);
	sector_t end = (at + bytes) >> SECTOR_SHIFT;

	heal(at, bytes);
	if (READ_ONCE(lost.count) && first < end)
		badblocks_clear(&lost, first, end - first);
}
EXPORT_SYMBOL_GPL(pmcore_lost_written);

/**
 * pmcore_lost_show() - the list, as in sysfs: sector and number of sectors
 * @buf: a page
 */
ssize_t pmcore_lost_show(char *buf)
{
	return badblocks_show(&lost, buf, 0);
}

/**
 * pmcore_lost_init() - an empty list
 */
int pmcore_lost_init(void)
{
	return badblocks_init(&lost, 1);
}

/**
 * pmcore_lost_exit() - undo it
 */
void pmcore_lost_exit(void)
{
	badblocks_exit(&lost);
}
