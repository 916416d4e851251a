/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/nvme/host/core.c, whose structures it needs: the volatile
 * write cache of an NVMe controller, switched off by Set Features (06h).
 *
 * A controller that starts anew has its cache on. It is told at each start,
 * after it was identified and before it gets a queue for reads and writes: the
 * first start comes before any namespace is looked for, so that the block layer
 * never hears of a cache; the next ones are Go's (and any other reset's), before
 * the requests that were in flight come to it again.
 */

/**
 * rem_nvme_cache_switch_off - keep what a controller says is written, written
 * @ctrl: identified, with its admin queue only
 *
 * Only where main memory outlives the power: elsewhere a cache does no harm. A
 * controller across a network has power of its own.
 *
 * Context: process, may sleep. Return: 0, also where it cannot be switched off
 * and never was; a negative errno where the controller is gone, or refuses now
 * what the block layer relies on.
 */
static int rem_nvme_cache_switch_off(struct nvme_ctrl *ctrl)
{
	int err = 0;

	if (!rem.region_bytes || !(ctrl->vwc & NVME_CTRL_VWC_PRESENT) ||
	    ctrl->ops->flags & NVME_F_FABRICS)
		return 0;
	if (!ctrl->rem_cache_off || !rem_mutant("forget-write-through"))
		err = nvme_set_features(ctrl, NVME_FEAT_VOLATILE_WC, 0, NULL, 0,
					NULL);
	if (err < 0)
		return err;
	if (err && ctrl->rem_cache_off)
		return -EIO;
	if (err) {
		dev_warn(ctrl->device,
			 "remanence: the write cache, which a power failure empties, cannot be switched off: status %#x\n",
			 err);
		return 0;
	}
	ctrl->rem_cache_off = true;
	/* What the block layer is told: there is none. */
	ctrl->vwc &= ~NVME_CTRL_VWC_PRESENT;
	return 0;
}

/**
 * rem_nvme_cache_is_off - Return: whether a disk's cache was switched off here.
 * @disk: any disk
 */
bool rem_nvme_cache_is_off(struct gendisk *disk)
{
	struct nvme_ns *ns = disk->private_data;

	return disk->fops == &nvme_bdev_ops && ns->ctrl->rem_cache_off;
}
