// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: where the region is from
 *
 * One of: what ``pm=`` put aside at boot, where the kernel has pminit (no
 * parameter); memory that any kernel put aside (``reserve_mem=SIZE:ALIGN:NAME``,
 * parameter ``reserved=NAME``); a pmem device with DAX (``memmap=SIZE!ADDRESS`` or
 * an NVDIMM, ``device=PATH``), which is then opened for nobody else.
 *
 * Only the first promises the same kernel virtual address at each boot. Nothing on
 * media needs it: all places are offsets.
 */
#include <linux/blkdev.h>
#include <linux/dax.h>
#include <linux/io.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pfn_t.h>

#include "pmcore.h"
#include "pminit.h"

static char *reserved;
module_param(reserved, charp, 0444);
MODULE_PARM_DESC(reserved,
		 "name that reserve_mem= on the command line gave the region");

static char *device;
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "pmem device that is the region, as /dev/pmem0");

static struct file *bdev_file;
static bool was_read_only;
static struct dax_device *dax;
static struct dev_pagemap pagemap;

static int take_reserved(void)
{
	phys_addr_t start, size;

	if (!reserve_mem_find_by_name(reserved, &start, &size)) {
		pr_err("pmcore: no memory was reserved as %s: add reserve_mem=SIZE:2M:%s to the command line\n",
		       reserved, reserved);
		return -ENODEV;
	}
	pmcore.phys = start;
	pmcore.base = phys_to_virt(start);
	pmcore.alias = pmcore.base;
	pmcore.bytes = size;
	snprintf(pmcore.source, sizeof(pmcore.source), "reserve_mem %s",
		 reserved);
	return 0;
}

/*
 * All pages, also those that the driver knows to be lost: what they hold is an error
 * when it is read, and not the end of the region.
 */
static long get_pages(pgoff_t first, long pages, pfn_t *pfn)
{
	long at = 0, got;
	void *here;
	pfn_t its;

	while (at < pages) {
		got = dax_direct_access(dax, first + at, pages - at,
					DAX_RECOVERY_WRITE, &here, &its);
		if (got <= 0)
			return got;
		if (!at) {
			pmcore.base = here;
			*pfn = its;
		} else if (here != pmcore.base + at * PAGE_SIZE) {
			break;
		}
		at += got;
	}
	return at;
}

static int get_direct_access(void)
{
	struct block_device *bdev = file_bdev(bdev_file);
	u64 start_off;
	long pages, got;
	pfn_t pfn;
	int id;

	dax = fs_dax_get_by_bdev(bdev, &start_off, NULL, NULL);
	if (!dax) {
		pr_err("pmcore: %s has no direct access\n", device);
		return -EOPNOTSUPP;
	}
	pages = bdev_nr_bytes(bdev) >> PAGE_SHIFT;
	id = dax_read_lock();
	got = get_pages(start_off >> PAGE_SHIFT, pages, &pfn);
	dax_read_unlock(id);
	if (got < pages) {
		pr_err("pmcore: %s is not one piece of memory\n", device);
		fs_put_dax(dax, NULL);
		dax = NULL;
		return got < 0 ? got : -EOPNOTSUPP;
	}
	pmcore.phys = pfn_t_to_phys(pfn);
	pmcore.has_pages = pfn_t_devmap(pfn);
	pmcore.alias = pmcore.base;
	pmcore.bytes = (u64)pages << PAGE_SHIFT;
	return 0;
}

static int take_device(void)
{
	int err;

	bdev_file = bdev_file_open_by_path(device,
					   BLK_OPEN_READ | BLK_OPEN_WRITE,
					   &pmcore, NULL);
	if (IS_ERR(bdev_file)) {
		err = PTR_ERR(bdev_file);
		bdev_file = NULL;
		pr_err("pmcore: %s cannot be opened: %pe\n", device,
		       ERR_PTR(err));
		return err;
	}
	err = get_direct_access();
	if (err) {
		fput(bdev_file);
		bdev_file = NULL;
		return err;
	}
	/* Its driver would store through the mapping that gets protected. */
	was_read_only = get_disk_ro(file_bdev(bdev_file)->bd_disk);
	set_disk_ro(file_bdev(bdev_file)->bd_disk, true);
	snprintf(pmcore.source, sizeof(pmcore.source), "device %s", device);
	return 0;
}

/* Looked up when it is needed: other kernels do not have it. */
static const struct pminit_region *find_pminit(void)
{
	const struct pminit_region *(*find)(void);
	const struct pminit_region *region = NULL;

	find = __symbol_get("pminit_region");
	if (find) {
		region = find();
		__symbol_put("pminit_region");
	}
	return region;
}

/* Of the kernel proper, which is not unloaded; other kernels do not have them. */
static bool (*ask_pminit)(void);
static int (*watch_pminit)(struct notifier_block *nb);
static void (*unwatch_pminit)(struct notifier_block *nb);

static void find_promise(void)
{
	ask_pminit = __symbol_get("pminit_flush_on_fail");
	watch_pminit = __symbol_get("pminit_watch");
	unwatch_pminit = __symbol_get("pminit_unwatch");
}

static void put_promise(void)
{
	if (ask_pminit)
		__symbol_put("pminit_flush_on_fail");
	if (watch_pminit)
		__symbol_put("pminit_watch");
	if (unwatch_pminit)
		__symbol_put("pminit_unwatch");
	ask_pminit = NULL;
	watch_pminit = NULL;
	unwatch_pminit = NULL;
}

/* Pages, which direct access needs, come with a second, writable mapping. */
static int make_pages(const struct pminit_region *region)
{
	void *at;

	pagemap.type = MEMORY_DEVICE_FS_DAX;
	pagemap.range.start = region->phys;
	pagemap.range.end = region->phys + region->bytes - 1;
	pagemap.nr_range = 1;
	pagemap.owner = &pmcore;
	at = memremap_pages(&pagemap, NUMA_NO_NODE);
	if (IS_ERR(at)) {
		pagemap.nr_range = 0;
		pr_err("pmcore: pm=: no pages for %llu bytes: %pe\n",
		       region->bytes, at);
		return PTR_ERR(at);
	}
	pmcore.alias = at;
	pmcore.has_pages = true;
	return 0;
}

static int take_pminit(void)
{
	const struct pminit_region *region = find_pminit();

	if (!region) {
		pr_err("pmcore: nothing was put aside at boot: add pm=SIZE to the command line, or give reserved=NAME or device=PATH\n");
		return -ENODEV;
	}
	pmcore.phys = region->phys;
	pmcore.base = region->address;
	pmcore.bytes = region->bytes;
	pmcore.asked_bytes = region->asked_bytes;
	pmcore.limit_bytes = region->limit_bytes;
	strscpy(pmcore.source, "pm=");
	find_promise();
	return make_pages(region);
}

/**
 * pmcore_source_get() - take the region over
 *
 * Context: may sleep.
 * Return: 0 or a negative errno, which has been logged.
 */
int pmcore_source_get(void)
{
	if (reserved && device) {
		pr_err("pmcore: give either reserved=NAME or device=PATH\n");
		return -EINVAL;
	}
	if (reserved)
		return take_reserved();
	return device ? take_device() : take_pminit();
}

/**
 * pmcore_source_put() - give the region back; its content stays
 */
void pmcore_source_put(void)
{
	put_promise();
	if (pagemap.nr_range)
		memunmap_pages(&pagemap);
	if (dax)
		fs_put_dax(dax, NULL);
	if (bdev_file) {
		set_disk_ro(file_bdev(bdev_file)->bd_disk, was_read_only);
		fput(bdev_file);
	}
	dax = NULL;
	bdev_file = NULL;
}

/**
 * pmcore_source_bdev() - the device that the region is on, or NULL
 */
struct block_device *pmcore_source_bdev(void)
{
	return bdev_file ? file_bdev(bdev_file) : NULL;
}

/**
 * pmcore_source_saves() - whether the platform saves caches when the power fails, now
 *
 * Context: any.
 */
bool pmcore_source_saves(void)
{
	if (dax)
		return !dax_write_cache_enabled(dax);
	return pmcore.limit_bytes && ask_pminit && ask_pminit();
}

/**
 * pmcore_source_watch() - hear of changes of that answer
 * @nb: called in process context
 *
 * Of a device's platform nobody tells.
 *
 * Return: 0 or a negative errno.
 */
int pmcore_source_watch(struct notifier_block *nb)
{
	return watch_pminit && unwatch_pminit ? watch_pminit(nb) : 0;
}

/**
 * pmcore_source_unwatch() - undo pmcore_source_watch()
 * @nb: what it was given
 */
void pmcore_source_unwatch(struct notifier_block *nb)
{
	if (watch_pminit && unwatch_pminit)
		unwatch_pminit(nb);
}
