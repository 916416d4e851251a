// SPDX-License-Identifier: GPL-2.0-only
/*
 * Direct access to a disk on a raw segment: a file system (ext4 and xfs with the
 * mount option dax) maps the segment's own memory into programs. It needs
 * memory with a struct page, which only memory that is not System RAM has here:
 * pm=, memmap=!, an NVDIMM.
 *
 * What goes that way is in the caches until the file system writes it back
 * (fsync, or the program's own flush with MAP_SYNC), so that such a disk, unlike
 * the others, has FLUSH do something: the fence behind those flushes.
 */
#include <linux/dax.h>
#include <linux/libnvdimm.h>
#include <linux/pfn_t.h>

#include "pmramd.h"

/**
 * pmramd_has_dax() - whether a disk is to have direct access
 * @ramd: the disk, its segment open
 */
bool pmramd_has_dax(const struct pmramd *ramd)
{
	return IS_ENABLED(CONFIG_FS_DAX) && !ramd->pmbc &&
	       ramd->segment.has_pages &&
	       IS_ALIGNED(ramd->segment.bytes, PAGE_SIZE);
}

static long direct_access(struct dax_device *dax, pgoff_t page, long pages,
			  enum dax_access_mode mode, void **at, pfn_t *pfn)
{
	struct pmramd *ramd = dax_get_private(dax);
	u64 offset = PFN_PHYS(page);

	if (offset >= ramd->segment.bytes)
		return -ERANGE;
	if (at)
		*at = ramd->writable + offset;
	if (pfn)
		*pfn = phys_to_pfn_t(ramd->segment.phys + offset,
				     PFN_DEV | PFN_MAP);
	return PHYS_PFN(ramd->segment.bytes - offset);
}

static int zero_pages(struct dax_device *dax, pgoff_t page, size_t pages)
{
	struct pmramd *ramd = dax_get_private(dax);

	pm_zero(ramd->segment.env, ramd->segment.at + PFN_PHYS(page),
		PFN_PHYS(pages));
	return 0;
}

static const struct dax_operations dax_operations = {
	.direct_access = direct_access,
	.zero_page_range = zero_pages,
};

/*
 * What programs stored through a mapping is in the caches: whether the file system
 * writes it back. Each sync of it ends with FLUSH, and so with pm_fence(), which
 * settles what was left there before this changed.
 */
static int promise_changed(struct notifier_block *nb, unsigned long kept,
			   void *unused)
{
	struct pmramd *ramd = container_of(nb, struct pmramd, promise);

	dax_write_cache(ramd->dax, !kept);
	return NOTIFY_OK;
}

/* Before it has a disk: nobody uses it. */
static int watch_promise(struct pmramd *ramd)
{
	dax_write_cache(ramd->dax, true);
	if (!ramd->segment.env)
		return 0;
	ramd->promise.notifier_call = promise_changed;
	return pmcore_promise_watch(&ramd->promise);
}

/**
 * pmramd_dax_add() - give a disk direct access, before it is added
 * @ramd: the disk
 */
int pmramd_dax_add(struct pmramd *ramd)
{
	struct dax_device *dax;
	int err;

	/* A file system stores by itself: this segment is not protected. */
	ramd->writable = pmcore_writable(&ramd->segment);
	dax = alloc_dax(ramd, &dax_operations);
	if (IS_ERR(dax)) {
		err = PTR_ERR(dax);
		goto err_writable;
	}
	/* Copies bypass the caches; a machine check in one is survived. */
	set_dax_nocache(dax);
	set_dax_nomc(dax);
	set_dax_synchronous(dax);
	ramd->dax = dax;
	err = watch_promise(ramd);
	if (err)
		goto err_dax;
	err = dax_add_host(dax, ramd->disk);
	if (err)
		goto err_promise;
	return 0;

err_promise:
	if (ramd->segment.env)
		pmcore_promise_unwatch(&ramd->promise);
err_dax:
	ramd->dax = NULL;
	kill_dax(dax);
	put_dax(dax);
err_writable:
	pmcore_writable_end(&ramd->segment);
	return err;
}

/**
 * pmramd_dax_remove() - undo pmramd_dax_add()
 * @ramd: the disk; nobody has it open
 */
void pmramd_dax_remove(struct pmramd *ramd)
{
	if (!ramd->dax)
		return;
	if (ramd->segment.env)
		pmcore_promise_unwatch(&ramd->promise);
	dax_remove_host(ramd->disk);
	kill_dax(ramd->dax);
	put_dax(ramd->dax);
	pmcore_writable_end(&ramd->segment);
	ramd->dax = NULL;
}
