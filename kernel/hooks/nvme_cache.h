/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/nvme/host/core.c: switches the volatile write cache of an
 * NVMe controller off, by Set Features (06h).
 *
 * A controller has its cache on after each start. So this is done at each start,
 * after the controller was identified and before it has an I/O queue. At the
 * first start that is before namespaces are scanned, and the block layer sees
 * disks without a cache. Later starts are those of Go and of controller resets;
 * there it is done before requests that were in flight are issued again.
 *
 * A log (stop/disk_log.c) switches the cache of its disk on again, and later starts
 * leave it on. A controller has one cache, so that is for the only namespace of one.
 */
#include "../machine.h"
#include "hooks.h"

/**
 * rem_nvme_cache_switch_off - switch a controller's volatile write cache off
 * @ctrl: identified, with its admin queue only
 *
 * Only if main memory is non-volatile: otherwise a cache does no harm. A fabrics
 * controller has its own power supply.
 *
 * Context: process, may sleep.
 * Return: 0, also if the cache cannot be switched off and never was; a
 * negative errno if the controller does not respond, or refuses now what the
 * block layer relies on.
 */
static int rem_nvme_cache_switch_off(struct nvme_ctrl *ctrl)
{
	int err;

	if (!rem.region_bytes || !(ctrl->vwc & NVME_CTRL_VWC_PRESENT) ||
	    ctrl->ops->flags & NVME_F_FABRICS || ctrl->rem_cache_log)
		return 0;
	err = nvme_set_features(ctrl, NVME_FEAT_VOLATILE_WC, 0, NULL, 0, NULL);
	if (err < 0)
		return err;
	if (err && ctrl->rem_cache_off)
		return -EIO;
	if (err) {
		dev_warn(ctrl->device,
			 "remanence: the volatile write cache cannot be switched off: status %#x\n",
			 err);
		return 0;
	}
	ctrl->rem_cache_off = true;
	/* The block layer shall see no cache. */
	ctrl->vwc &= ~NVME_CTRL_VWC_PRESENT;
	return 0;
}

/**
 * rem_nvme_cache_is_off - whether a disk's cache was switched off here
 * @disk: any disk
 *
 * Context: process; the disk's open_mutex is held and it is not dead, so its namespace
 * is there.
 * Return: true if it was.
 */
bool rem_nvme_cache_is_off(struct gendisk *disk)
{
	struct nvme_ns *ns = disk->private_data;

	return disk->fops == &nvme_bdev_ops && ns->ctrl->rem_cache_off;
}

/* Whether the controller has this namespace alone. */
static bool rem_nvme_is_alone(struct nvme_ns *ns)
{
	bool alone;

	mutex_lock(&ns->ctrl->namespaces_lock);
	alone = list_is_singular(&ns->ctrl->namespaces) &&
		!nvme_ns_head_multipath(ns->head);
	mutex_unlock(&ns->ctrl->namespaces_lock);
	return alone;
}

/**
 * rem_nvme_cache_can - whether a disk's cache can be switched by rem_nvme_cache_set()
 * @disk: any disk
 *
 * Context: process; the disk cannot go away.
 * Return: true if it can.
 */
bool rem_nvme_cache_can(struct gendisk *disk)
{
	struct nvme_ns *ns = disk->private_data;

	if (disk->fops != &nvme_bdev_ops)
		return false;
	return ns->ctrl->rem_cache_log ||
	       (ns->ctrl->rem_cache_off && rem_nvme_is_alone(ns));
}

/**
 * rem_nvme_cache_set - switch the cache of a controller's only disk
 * @disk: for which rem_nvme_cache_can() is true
 * @on: keep written data in the cache until a flush, also after later starts
 *
 * Context: process, may sleep.
 * Return: 0 or a negative errno.
 */
int rem_nvme_cache_set(struct gendisk *disk, bool on)
{
	struct nvme_ns *ns = disk->private_data;
	struct nvme_ctrl *ctrl = ns->ctrl;
	struct queue_limits lim;
	int err;

	/* First, as a start of the controller may come between. */
	ctrl->rem_cache_log = on;
	err = nvme_set_features(ctrl, NVME_FEAT_VOLATILE_WC, on, NULL, 0, NULL);
	/* What was written before is in the cache, and nobody would flush it. */
	if (!err && !on)
		err = blkdev_issue_flush(disk->part0);
	if (err) {
		ctrl->rem_cache_log = !on;
		return err < 0 ? err : -EIO;
	}
	ctrl->rem_cache_off = !on;
	lim = queue_limits_start_update(disk->queue);
	if (on) {
		ctrl->vwc |= NVME_CTRL_VWC_PRESENT;
		lim.features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	} else {
		ctrl->vwc &= ~NVME_CTRL_VWC_PRESENT;
		lim.features &= ~(BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA);
	}
	return queue_limits_commit_update_frozen(disk->queue, &lim);
}
