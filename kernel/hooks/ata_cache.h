/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/ata/libata-core.c: switches the volatile write cache of a disk
 * off, by SET FEATURES (82h).
 *
 * A disk has its cache on when its power returns. libata configures a disk when it is
 * found, before the block layer asks for its cache, and after each reset of its link,
 * before commands that were in flight are issued again; so it does after Go.
 */
#include "../machine.h"
#include "hooks.h"

/* Word 85 of the identification: features that are enabled. */
#define REM_ATA_WRITE_CACHE BIT(5)

/**
 * rem_ata_cache_switch_off - switch a disk's volatile write cache off
 * @dev: identified, an ATA disk
 *
 * Only if main memory is non-volatile: otherwise a cache does no harm. Who switches it
 * on is heard by libata, which configures the disk again.
 *
 * Context: error handling, may sleep.
 * Return: 0, also if the cache cannot be switched off and never was; -EIO if the disk
 * refuses now what the block layer relies on.
 */
static int rem_ata_cache_switch_off(struct ata_device *dev)
{
	unsigned int err_mask;

	if (!rem.region_bytes || !ata_id_wcache_enabled(dev->id))
		return 0;
	err_mask = ata_dev_set_feature(dev, SETFEATURES_WC_OFF, 0);
	if (err_mask && dev->rem_cache_off)
		return -EIO;
	if (err_mask) {
		ata_dev_warn(dev,
			     "remanence: the volatile write cache cannot be switched off: %#x\n",
			     err_mask);
		return 0;
	}
	dev->rem_cache_off = true;
	/* The block layer shall see no cache. */
	dev->id[ATA_ID_CFS_ENABLE_1] &= ~REM_ATA_WRITE_CACHE;
	return 0;
}

/**
 * rem_ata_cache_is_off - whether a disk's cache was switched off here
 * @disk: any disk
 *
 * Context: process; the disk's open_mutex is held and it is not dead, so its parent is
 * there.
 * Return: true if it was.
 */
bool rem_ata_cache_is_off(struct gendisk *disk)
{
	struct device *parent = disk_to_dev(disk)->parent;
	struct scsi_device *sdev;
	struct ata_device *dev;

	if (!parent || !scsi_is_sdev_device(parent))
		return false;
	sdev = to_scsi_device(parent);
	if (sdev->host->transportt != ata_scsi_transport_template)
		return false;
	dev = ata_scsi_find_dev(ata_shost_to_port(sdev->host), sdev);
	return dev && dev->rem_cache_off;
}
