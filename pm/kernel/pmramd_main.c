// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: pmramd
 *
 * A disk on a segment. On a block segment each request is a transaction (or as
 * many as its size needs), each block is checked when it is read, and discard
 * and write-zeroes make holes. On a raw segment it is plain memory, with direct
 * access where the memory allows it (pmramd_dax.c).
 *
 * Requests are bios, done by the submitter, as in pmem and brd: there is
 * nothing to wait for, and a queue of blk-mq takes a quarter of a read's whole time
 * (1,000 of 3,900 instructions for 4 KiB).
 *
 * A write is durable when it ends. So a disk without direct access has no
 * volatile cache, and the block layer rightly ends FLUSH at once and takes FUA
 * for done.
 */
#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/idr.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "pmbc.h"
#include "pmramd.h"

#define BATCH_MAX 32 /* blocks of one transaction; on the stack */

static LIST_HEAD(disks);
static DEFINE_MUTEX(disks_lock);
static DEFINE_IDA(numbers);

/* Blocks of a request that are not yet written. */
struct batch {
	struct pm_block_io io[BATCH_MAX];
	u32 count;
	u32 max;
};

static int batch_write(struct pmramd *ramd, struct batch *batch)
{
	int err = pmbc_write(ramd->pmbc, batch->io, batch->count);

	batch->count = 0;
	return err;
}

static int batch_add(struct pmramd *ramd, struct batch *batch, u64 block,
		     const void *data)
{
	batch->io[batch->count].block = block;
	batch->io[batch->count++].data = data;
	return batch->count == batch->max ? batch_write(ramd, batch) : 0;
}

static int read_one(struct pmramd *ramd, u64 block, void *data)
{
	struct pm_block_to to = { block, data };

	return pmbc_read(ramd->pmbc, &to, 1);
}

/* Block after block of a bio's data. */
static int blocks_transfer(struct pmramd *ramd, struct bio *bio,
			   struct batch *batch)
{
	u64 block = bio->bi_iter.bi_sector * SECTOR_SIZE / ramd->block_bytes;
	struct bvec_iter iterator;
	struct bio_vec vec;
	int err = 0;

	bio_for_each_segment(vec, bio, iterator) {
		void *data = page_address(vec.bv_page) + vec.bv_offset;
		u32 at;

		/* The queue's limits ask for whole blocks. */
		if (vec.bv_len % ramd->block_bytes)
			return -EIO;
		for (at = 0; at < vec.bv_len && !err; at += ramd->block_bytes) {
			if (op_is_write(bio_op(bio)))
				err = batch_add(ramd, batch, block, data + at);
			else
				err = read_one(ramd, block, data + at);
			block++;
		}
		if (err)
			return err;
	}
	return 0;
}

static noinline int many_blocks(struct pmramd *ramd, struct bio *bio)
{
	u64 block = bio->bi_iter.bi_sector * SECTOR_SIZE / ramd->block_bytes;
	u64 count = bio->bi_iter.bi_size / ramd->block_bytes;
	struct batch batch;
	int err = 0;

	batch.count = 0;
	batch.max = min_t(u32, BATCH_MAX, pmbc_transaction_max(ramd->pmbc));
	switch (bio_op(bio)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		err = blocks_transfer(ramd, bio, &batch);
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		while (count-- && !err)
			err = batch_add(ramd, &batch, block++, NULL);
		break;
	default:
		return -EOPNOTSUPP;
	}
	return err || !batch.count ? err : batch_write(ramd, &batch);
}

/* The most usual bio, without a batch, which is large and zeroed by the compiler. */
static int one_block(struct pmramd *ramd, struct bio *bio,
		     const struct bio_vec *vec)
{
	u64 block = bio->bi_iter.bi_sector * SECTOR_SIZE / ramd->block_bytes;
	void *data = page_address(vec->bv_page) + vec->bv_offset;
	struct pm_block_io io = { block, data };

	return bio_op(bio) == REQ_OP_WRITE ? pmbc_write(ramd->pmbc, &io, 1) :
					     read_one(ramd, block, data);
}

static int blocks_bio(struct pmramd *ramd, struct bio *bio)
{
	if (bio->bi_iter.bi_size == ramd->block_bytes &&
	    (bio_op(bio) == REQ_OP_WRITE || bio_op(bio) == REQ_OP_READ)) {
		struct bio_vec vec = bio_iovec(bio);

		if (vec.bv_len == ramd->block_bytes)
			return one_block(ramd, bio, &vec);
	}
	return many_blocks(ramd, bio);
}

static int raw_read(struct pmramd *ramd, const void *at, struct bio *bio)
{
	struct bvec_iter iterator;
	struct bio_vec vec;

	bio_for_each_segment(vec, bio, iterator) {
		void *data = page_address(vec.bv_page) + vec.bv_offset;

		if (!pm_fetch(data, at, vec.bv_len)) {
			pmcore_lost_find(at, vec.bv_len);
			return -EBADMSG;
		}
		at += vec.bv_len;
	}
	return 0;
}

static void raw_write(struct pmramd *ramd, void *at, struct bio *bio)
{
	struct bvec_iter iterator;
	struct bio_vec vec;

	bio_for_each_segment(vec, bio, iterator) {
		pm_copy(ramd->segment.env, at,
			page_address(vec.bv_page) + vec.bv_offset, vec.bv_len);
		at += vec.bv_len;
	}
}

static int raw_bio(struct pmramd *ramd, struct bio *bio)
{
	void *at = ramd->segment.at + bio->bi_iter.bi_sector * SECTOR_SIZE;

	/* What a file system wrote back by itself comes before this. */
	if (bio->bi_opf & REQ_PREFLUSH)
		pm_fence(ramd->segment.env);
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return raw_read(ramd, at, bio);
	case REQ_OP_WRITE_ZEROES:
		pm_zero(ramd->segment.env, at, bio->bi_iter.bi_size);
		break;
	case REQ_OP_WRITE:
		raw_write(ramd, at, bio);
		break;
	default:
		return -EOPNOTSUPP;
	}
	pm_fence(ramd->segment.env);
	return 0;
}

static void submit(struct bio *bio)
{
	struct pmramd *ramd = bio->bi_bdev->bd_disk->private_data;
	bool counts = blk_queue_io_stat(ramd->disk->queue);
	unsigned long begin = counts ? bio_start_io_acct(bio) : 0;
	int err = ramd->pmbc ? blocks_bio(ramd, bio) : raw_bio(ramd, bio);

	if (counts)
		bio_end_io_acct(bio, begin);
	if (err == -EBADMSG)
		pr_warn_ratelimited("pmramd: %s: a damaged block at sector %llu\n",
				    ramd->disk->disk_name,
				    (u64)bio->bi_iter.bi_sector);
	if (err)
		bio->bi_status = err == -EBADMSG ? BLK_STS_MEDIUM :
						   errno_to_blk_status(err);
	bio_endio(bio);
}

/* Under the disk's open_mutex. */
static int open_disk(struct gendisk *disk, blk_mode_t mode)
{
	struct pmramd *ramd = disk->private_data;

	return ramd->going ? -ENXIO : 0;
}

static const struct block_device_operations disk_operations = {
	.owner = THIS_MODULE,
	.open = open_disk,
	.submit_bio = submit,
};

static int open_segment(struct pmramd *ramd, const char *name)
{
	int err = pmcore_get(name, MAY_READ | MAY_WRITE | PMCORE_CLAIM,
			     &ramd->segment);

	if (err)
		return err;
	ramd->block_bytes = SECTOR_SIZE;
	if (ramd->segment.type == REM_PM_RAW)
		return 0;
	/* pmbc holds the segment itself. */
	pmcore_put(&ramd->segment);
	ramd->pmbc = pmbc_open(name, MAY_READ | MAY_WRITE);
	if (IS_ERR(ramd->pmbc))
		return PTR_ERR(ramd->pmbc);
	ramd->block_bytes = pmbc_block_bytes(ramd->pmbc);
	if (ramd->block_bytes > PAGE_SIZE) {
		pmbc_close(ramd->pmbc);
		return -EOPNOTSUPP;
	}
	pmbc_claim(ramd->pmbc, true);
	return 0;
}

static void close_segment(struct pmramd *ramd)
{
	if (ramd->pmbc) {
		pmbc_claim(ramd->pmbc, false);
		pmbc_close(ramd->pmbc);
	} else {
		pmcore_put(&ramd->segment);
	}
}

static u64 disk_bytes(const struct pmramd *ramd)
{
	if (ramd->pmbc)
		return pmbc_blocks(ramd->pmbc) * ramd->block_bytes;
	return ramd->segment.bytes;
}

static int make_disk(struct pmramd *ramd)
{
	struct queue_limits limits = {
		.logical_block_size = ramd->block_bytes,
		.physical_block_size = max_t(u32, ramd->block_bytes, PAGE_SIZE),
		.dma_alignment = ramd->block_bytes - 1,
		.max_hw_sectors = 2048,
		.max_write_zeroes_sectors = 2048,
		.max_hw_discard_sectors = ramd->pmbc ? 2048 : 0,
		.discard_granularity = ramd->pmbc ? ramd->block_bytes : 0,
		.features = BLK_FEAT_SYNCHRONOUS,
	};
	struct gendisk *disk;
	int err;

	if (pmramd_has_dax(ramd))
		limits.features |= BLK_FEAT_DAX | BLK_FEAT_WRITE_CACHE |
				   BLK_FEAT_FUA;
	disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	ramd->disk = disk;
	disk->fops = &disk_operations;
	disk->private_data = ramd;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "pmrd%d",
		 ramd->number);
	set_capacity(disk, disk_bytes(ramd) / SECTOR_SIZE);
	err = pmramd_has_dax(ramd) ? pmramd_dax_add(ramd) : 0;
	if (!err)
		err = add_disk(disk);
	if (!err)
		return 0;
	pmramd_dax_remove(ramd);
	put_disk(disk);
	return err;
}

static struct pmramd *find(const char *name)
{
	struct pmramd *ramd;

	list_for_each_entry(ramd, &disks, list)
		if (!strcmp(ramd->segment.name, name))
			return ramd;
	return NULL;
}

static int add(struct pm_ioc_disk *wanted)
{
	struct pmramd *ramd;
	int err;

	if (find(wanted->name))
		return -EEXIST;
	ramd = kzalloc(sizeof(*ramd), GFP_KERNEL);
	if (!ramd)
		return -ENOMEM;
	err = open_segment(ramd, wanted->name);
	if (err)
		goto err_free;
	ramd->number = ida_alloc(&numbers, GFP_KERNEL);
	err = ramd->number < 0 ? ramd->number : make_disk(ramd);
	if (err)
		goto err_close;
	list_add(&ramd->list, &disks);
	strscpy(wanted->disk, ramd->disk->disk_name, sizeof(wanted->disk));
	wanted->flags = ramd->dax ? PM_HAS_DAX : 0;
	return 0;

err_close:
	if (ramd->number >= 0)
		ida_free(&numbers, ramd->number);
	close_segment(ramd);
err_free:
	kfree(ramd);
	return err;
}

static void remove(struct pmramd *ramd)
{
	list_del(&ramd->list);
	pmramd_dax_remove(ramd);
	del_gendisk(ramd->disk);
	put_disk(ramd->disk);
	ida_free(&numbers, ramd->number);
	close_segment(ramd);
	kfree(ramd);
}

static int remove_by_name(const char *name)
{
	struct pmramd *ramd = find(name);

	if (!ramd)
		return -ENOENT;
	/* An open of it is either counted now, or refused from now on. */
	mutex_lock(&ramd->disk->open_mutex);
	ramd->going = !disk_openers(ramd->disk);
	mutex_unlock(&ramd->disk->open_mutex);
	if (!ramd->going)
		return -EBUSY;
	remove(ramd);
	return 0;
}

static long pmramd_ioctl(struct file *file, unsigned int command,
			 unsigned long argument)
{
	void __user *user = (void __user *)argument;
	struct pm_ioc_disk disk;
	int err;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (command != PMRAMD_IOC_ADD && command != PMRAMD_IOC_REMOVE)
		return -ENOTTY;
	if (copy_from_user(&disk, user, sizeof(disk)))
		return -EFAULT;
	if (disk.name[PM_NAME_BYTES - 1] || disk.flags || disk.reserved)
		return -EINVAL;
	mutex_lock(&disks_lock);
	if (command == PMRAMD_IOC_ADD)
		err = add(&disk);
	else
		err = remove_by_name(disk.name);
	mutex_unlock(&disks_lock);
	if (!err && command == PMRAMD_IOC_ADD &&
	    copy_to_user(user, &disk, sizeof(disk)))
		err = -EFAULT;
	return err;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = pmramd_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice control = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pmramd",
	.mode = 0600,
	.fops = &control_operations,
};

static int __init pmramd_init(void)
{
	return misc_register(&control);
}

static void __exit pmramd_exit(void)
{
	struct pmramd *ramd, *next;

	misc_deregister(&control);
	list_for_each_entry_safe(ramd, next, &disks, list)
		remove(ramd);
}

module_init(pmramd_init);
module_exit(pmramd_exit);
MODULE_DESCRIPTION("Persistent memory: disks");
MODULE_LICENSE("GPL");
