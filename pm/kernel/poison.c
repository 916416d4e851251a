// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: what the platform knows of lost lines
 *
 * The driver of a pmem device has a list of the sectors that media has lost, which the
 * platform's own search for them (ARS) fills. It is taken over when the device is.
 *
 * A store alone need not make a lost line good: the platform is asked to do that
 * before it (ND_CMD_CLEAR_ERROR), as that driver does. Pages that the kernel took
 * out of its mapping after a machine check, so that no CPU loads from them ahead of
 * time, are put back there: without that what was written could not be read.
 */
#include <linux/badblocks.h>
#include <linux/blkdev.h>
#include <linux/libnvdimm.h>
#include <linux/module.h>
#include <linux/set_memory.h>

#include "pmcore.h"

/* Of a module that other sources do not need, and its header is its own. */
typedef long (*clear_poison)(struct device *device, phys_addr_t phys,
			     unsigned int bytes);

/**
 * pmcore_poison_import() - list what the device's driver has listed
 * @list: sectors of the region
 */
void pmcore_poison_import(struct badblocks *list)
{
	struct block_device *bdev = pmcore_source_bdev();
	sector_t start, at, end, bad;
	int count;

	if (!bdev || !bdev->bd_disk->bb)
		return;
	start = get_start_sect(bdev);
	at = start;
	end = start + (pmcore.bytes >> SECTOR_SHIFT);
	while (at < end && badblocks_check(bdev->bd_disk->bb, at,
					   min_t(u64, end - at, INT_MAX), &bad,
					   &count)) {
		badblocks_set(list, bad - start, count, 1);
		at = bad + count;
	}
}

static void clear_by_driver(struct block_device *bdev, u64 at, u64 bytes)
{
	struct gendisk *disk = bdev->bd_disk;
	clear_poison clear = (clear_poison)__symbol_get("nvdimm_clear_poison");
	long cleared;

	if (!clear)
		return;
	cleared = clear(disk_to_dev(disk)->parent, pmcore.phys + at, bytes);
	__symbol_put("nvdimm_clear_poison");
	if (cleared < (long)bytes)
		pr_warn_ratelimited("pmcore: %s: the platform does not make %llu bytes good at byte %llu: %ld\n",
				    pmcore.source, bytes, at, cleared);
	if (cleared <= 0)
		return;
	/* No line of before may come out of the caches. */
	arch_invalidate_pmem(pmcore.base + at, cleared);
	if (disk->bb)
		badblocks_clear(disk->bb,
				get_start_sect(bdev) + (at >> SECTOR_SHIFT),
				cleared >> SECTOR_SHIFT);
}

/**
 * pmcore_poison_clear() - make lost sectors good that are about to be written
 * @at: offset in the region, of a sector
 * @bytes: whole sectors
 *
 * Context: may sleep.
 */
void pmcore_poison_clear(u64 at, u64 bytes)
{
	unsigned long frame = PHYS_PFN(pmcore.phys + at);
	unsigned long last = PHYS_PFN(pmcore.phys + at + bytes - 1);
	struct block_device *bdev = pmcore_source_bdev();

	if (bdev)
		clear_by_driver(bdev, at, bytes);
	for (; frame <= last; frame++)
		clear_mce_nospec(frame);
}
