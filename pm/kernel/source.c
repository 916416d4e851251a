// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: where the region is from
 *
 * One of, by parameter of the module: memory that the kernel put aside at boot
 * (``reserve_mem=SIZE:ALIGN:NAME``, parameter ``reserved=NAME``), or a pmem
 * device with DAX (``memmap=SIZE!ADDRESS`` or an NVDIMM, ``device=PATH``),
 * which is then opened for nobody else.
 *
 * Neither promises the same kernel virtual address at each boot. Nothing on
 * media needs it: all places are offsets.
 */
#include <linux/blkdev.h>
#include <linux/dax.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pfn_t.h>

#include "pmcore.h"

static char *reserved;
module_param(reserved, charp, 0444);
MODULE_PARM_DESC(reserved,
		 "name that reserve_mem= on the command line gave the region");

static char *device;
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "pmem device that is the region, as /dev/pmem0");

static struct file *bdev_file;
static struct dax_device *dax;

static int take_reserved(void **base, u64 *bytes)
{
	phys_addr_t start, size;

	if (!reserve_mem_find_by_name(reserved, &start, &size)) {
		pr_err("pmcore: no memory was reserved as %s: add reserve_mem=SIZE:2M:%s to the command line\n",
		       reserved, reserved);
		return -ENODEV;
	}
	pmcore.phys = start;
	*base = phys_to_virt(start);
	*bytes = size;
	snprintf(pmcore.source, sizeof(pmcore.source), "reserve_mem %s",
		 reserved);
	return 0;
}

static int get_direct_access(void **base, u64 *bytes)
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
	got = dax_direct_access(dax, start_off >> PAGE_SHIFT, pages, DAX_ACCESS,
				base, &pfn);
	dax_read_unlock(id);
	if (got < pages) {
		pr_err("pmcore: %s is not one piece of memory\n", device);
		fs_put_dax(dax, NULL);
		dax = NULL;
		return got < 0 ? got : -EOPNOTSUPP;
	}
	pmcore.phys = pfn_t_to_phys(pfn);
	pmcore.has_pages = pfn_t_devmap(pfn);
	*bytes = (u64)pages << PAGE_SHIFT;
	return 0;
}

static int take_device(void **base, u64 *bytes)
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
	err = get_direct_access(base, bytes);
	if (err) {
		fput(bdev_file);
		bdev_file = NULL;
		return err;
	}
	snprintf(pmcore.source, sizeof(pmcore.source), "device %s", device);
	return 0;
}

/**
 * pmcore_source_get() - take the region over
 * @base: where it is
 * @bytes: its size
 *
 * Context: may sleep.
 * Return: 0 or a negative errno, which has been said.
 */
int pmcore_source_get(void **base, u64 *bytes)
{
	if (!!reserved == !!device) {
		pr_err("pmcore: give either reserved=NAME or device=PATH\n");
		return -EINVAL;
	}
	return reserved ? take_reserved(base, bytes) : take_device(base, bytes);
}

/**
 * pmcore_source_put() - give the region back; its content stays
 */
void pmcore_source_put(void)
{
	if (dax)
		fs_put_dax(dax, NULL);
	if (bdev_file)
		fput(bdev_file);
	dax = NULL;
	bdev_file = NULL;
}
