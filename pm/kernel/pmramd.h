/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmramd: between its files only.
 */
#ifndef PMRAMD_H
#define PMRAMD_H

#include <linux/blkdev.h>
#include <linux/list.h>

#include "pmcore.h"

struct dax_device;

struct pmramd {
	struct list_head list;
	struct pmcore_segment segment; /* held, for a raw one */
	struct pmbc *pmbc; /* for a block one */
	struct dax_device *dax; /* for a raw one whose memory has pages */
	struct notifier_block promise; /* of one of persist=fof with dax */
	void *writable;		       /* where it stores by direct access */
	struct gendisk *disk;
	u32 block_bytes;
	bool going; /* nobody opens it any more */
	int number;
};

bool pmramd_has_dax(const struct pmramd *ramd);
int pmramd_dax_add(struct pmramd *ramd);
void pmramd_dax_remove(struct pmramd *ramd);

#endif /* PMRAMD_H */
