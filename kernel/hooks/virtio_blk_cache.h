/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/block/virtio_blk.c, whose structures it needs: the write
 * cache of a virtio disk, told by the driver's byte `wce` in its configuration.
 *
 * A device that starts anew has its cache on, whatever it was told before. The
 * block layer still believes what it believed, so the device is told that.
 */

/**
 * rem_virtblk_cache_can - Return: whether a disk's cache can be switched.
 * @vdev: a virtio disk
 */
bool rem_virtblk_cache_can(struct virtio_device *vdev)
{
	return virtio_has_feature(vdev, VIRTIO_BLK_F_CONFIG_WCE);
}

/**
 * rem_virtblk_cache_set - switch a disk's write cache, as its cache_type does
 * @vdev: a virtio disk for which rem_virtblk_cache_can() holds
 * @on: keep written data in the cache until a flush
 *
 * Context: process, may sleep. Return: 0 or a negative errno.
 */
int rem_virtblk_cache_set(struct virtio_device *vdev, bool on)
{
	struct virtio_blk *vblk = vdev->priv;
	struct queue_limits lim;

	virtio_cwrite8(vdev, offsetof(struct virtio_blk_config, wce), on);
	lim = queue_limits_start_update(vblk->disk->queue);
	if (virtblk_get_cache_mode(vdev))
		lim.features |= BLK_FEAT_WRITE_CACHE;
	else
		lim.features &= ~BLK_FEAT_WRITE_CACHE;
	return queue_limits_commit_update_frozen(vblk->disk->queue, &lim);
}

/**
 * rem_virtblk_cache_go - tell a device that starts anew whether it may cache
 * @vdev: a virtio disk, its features negotiated, not yet started
 *
 * Context: any. Return: nothing.
 */
void rem_virtblk_cache_go(struct virtio_device *vdev)
{
	struct virtio_blk *vblk = vdev->priv;
	u8 on = !!(vblk->disk->queue->limits.features & BLK_FEAT_WRITE_CACHE);

	if (rem_virtblk_cache_can(vdev) && !rem_mutant("forget-write-through"))
		vdev->config->set(vdev, offsetof(struct virtio_blk_config, wce),
				  &on, sizeof(on));
}
