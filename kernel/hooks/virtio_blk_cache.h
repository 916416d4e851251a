/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/block/virtio_blk.c: the write cache of a virtio disk, which
 * the byte `wce` of its configuration controls, and its serial number.
 *
 * A device has its cache on after a reset. The block layer keeps its view of the
 * cache over a reset, so the device is set to that.
 */
#include "hooks.h"

/**
 * rem_virtblk_cache_can - whether a disk's cache can be switched
 * @vdev: a virtio disk
 *
 * Context: any.
 * Return: true if it can.
 */
bool rem_virtblk_cache_can(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BLK_F_CONFIG_WCE);
}

/**
 * rem_virtblk_cache_set - switch a disk's write cache, as cache_type in sysfs does
 * @vdev: a virtio disk for which rem_virtblk_cache_can() is true
 * @on: keep written data in the cache until a flush
 *
 * Context: process, may sleep.
 * Return: 0 or a negative errno.
 */
int rem_virtblk_cache_set(struct virtio_device *vdev, bool on)
{
	struct virtio_blk *vblk = vdev->priv;
	struct queue_limits lim;
	int err;

	virtio_cwrite8(vdev, offsetof(struct virtio_blk_config, wce), on);
	/* What was written before is in the cache, and nobody would flush it. */
	if (!on) {
		err = blkdev_issue_flush(vblk->disk->part0);
		if (err)
			return err;
	}
	lim = queue_limits_start_update(vblk->disk->queue);
	if (virtblk_get_cache_mode(vdev))
		lim.features |= BLK_FEAT_WRITE_CACHE;
	else
		lim.features &= ~BLK_FEAT_WRITE_CACHE;
	return queue_limits_commit_update_frozen(vblk->disk->queue, &lim);
}

/**
 * rem_virtblk_cache_go - set the cache of a device to the block layer's view
 * @vdev: a virtio disk, after reset and feature negotiation, not yet started
 *
 * Context: any.
 */
void rem_virtblk_cache_go(struct virtio_device *vdev)
{
	struct virtio_blk *vblk = vdev->priv;
	u8 on = !!(vblk->disk->queue->limits.features & BLK_FEAT_WRITE_CACHE);

	if (rem_virtblk_cache_can(vdev))
		vdev->config->set(vdev, offsetof(struct virtio_blk_config, wce),
				  &on, sizeof(on));
}

/**
 * rem_virtblk_serial - ask a disk for its serial number
 * @vdev: a virtio disk
 * @ret_text: the number, with an end; empty if it has none
 * @bytes: of @ret_text
 *
 * Context: process, may sleep.
 * Return: 0 or a negative errno.
 */
int rem_virtblk_serial(struct virtio_device *vdev, char *ret_text,
		       size_t bytes)
{
	struct virtio_blk *vblk = vdev->priv;
	char *serial = kzalloc(VIRTIO_BLK_ID_BYTES + 1, GFP_NOIO);
	int err;

	if (!serial)
		return -ENOMEM;
	err = virtblk_get_id(vblk->disk, serial);
	if (err)
		*serial = 0;
	strscpy(ret_text, serial, bytes);
	kfree(serial);
	return err == -ENOMEM ? err : 0;
}
