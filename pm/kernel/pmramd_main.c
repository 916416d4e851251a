// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: pmramd
 *
 * A disk on a segment. On a block segment each request is a transaction (or as
 * many as its size needs), each block is checked when it is read, and discard
 * and write-zeroes make holes. On a raw segment it is plain memory, with direct
 * access where the memory allows it (pmramd_dax.c).
 *
 * A write is durable when it ends. So a disk without direct access has no
 * volatile cache, and the block layer rightly ends FLUSH at once and takes FUA
 * for done.
 */
#include <linux/blk-mq.h>
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

#define QUEUE_DEPTH 64
#define QUEUES_MAX 4
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

/* The parts of a request are whole blocks: see the queue's limits. */
static int blocks_transfer(struct pmramd *ramd, struct request *request,
			   struct batch *batch)
{
	u64 block = blk_rq_pos(request) * SECTOR_SIZE / ramd->block_bytes;
	bool writes = op_is_write(req_op(request));
	struct req_iterator iterator;
	struct bio_vec vec;
	int err = 0;

	rq_for_each_segment(vec, request, iterator) {
		void *data = page_address(vec.bv_page) + vec.bv_offset;
		u32 at;

		for (at = 0; at < vec.bv_len && !err; at += ramd->block_bytes) {
			if (writes)
				err = batch_add(ramd, batch, block, data + at);
			else
				err = pmbc_read(ramd->pmbc, block, 1,
						data + at);
			block++;
		}
		if (err)
			return err;
	}
	return 0;
}

static int blocks_request(struct pmramd *ramd, struct request *request)
{
	struct batch batch = {
		.max = min_t(u32, BATCH_MAX, pmbc_transaction_max(ramd->pmbc)),
	};
	u64 block = blk_rq_pos(request) * SECTOR_SIZE / ramd->block_bytes;
	u64 count = blk_rq_bytes(request) / ramd->block_bytes;
	int err = 0;

	switch (req_op(request)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		err = blocks_transfer(ramd, request, &batch);
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

static int raw_request(struct pmramd *ramd, struct request *request)
{
	void *at = ramd->segment.at + blk_rq_pos(request) * SECTOR_SIZE;
	struct req_iterator iterator;
	struct bio_vec vec;

	switch (req_op(request)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		break;
	case REQ_OP_FLUSH: /* of what a file system flushed by itself */
		pm_fence(ramd->segment.env);
		return 0;
	case REQ_OP_WRITE_ZEROES:
		pm_zero(ramd->segment.env, at, blk_rq_bytes(request));
		pm_fence(ramd->segment.env);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
	rq_for_each_segment(vec, request, iterator) {
		void *data = page_address(vec.bv_page) + vec.bv_offset;

		if (op_is_write(req_op(request)))
			pm_copy(ramd->segment.env, at, data, vec.bv_len);
		else
			memcpy(data, at, vec.bv_len);
		at += vec.bv_len;
	}
	if (op_is_write(req_op(request)))
		pm_fence(ramd->segment.env);
	return 0;
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *queue,
			     const struct blk_mq_queue_data *data)
{
	struct request *request = data->rq;
	struct pmramd *ramd = queue->queue->queuedata;
	int err;

	blk_mq_start_request(request);
	err = ramd->pmbc ? blocks_request(ramd, request) :
			   raw_request(ramd, request);
	if (err == -EBADMSG)
		pr_warn_ratelimited("pmramd: %s: a damaged block at sector %llu\n",
				    ramd->disk->disk_name,
				    (u64)blk_rq_pos(request));
	blk_mq_end_request(request, err == -EBADMSG ? BLK_STS_MEDIUM :
						      errno_to_blk_status(err));
	return BLK_STS_OK;
}

static const struct blk_mq_ops queue_operations = {
	.queue_rq = queue_rq,
};

static const struct block_device_operations disk_operations = {
	.owner = THIS_MODULE,
};

static int open_segment(struct pmramd *ramd, const char *name)
{
	int err = pmcore_get(name, MAY_READ | MAY_WRITE, &ramd->segment);

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
	return 0;
}

static void close_segment(struct pmramd *ramd)
{
	if (ramd->pmbc)
		pmbc_close(ramd->pmbc);
	else
		pmcore_put(&ramd->segment);
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
	};
	struct gendisk *disk;
	int err;

	if (pmramd_has_dax(ramd))
		limits.features = BLK_FEAT_DAX | BLK_FEAT_WRITE_CACHE |
				  BLK_FEAT_FUA | BLK_FEAT_SYNCHRONOUS;
	ramd->tags.ops = &queue_operations;
	ramd->tags.nr_hw_queues = min_t(u32, QUEUES_MAX, num_online_cpus());
	ramd->tags.queue_depth = QUEUE_DEPTH;
	ramd->tags.numa_node = NUMA_NO_NODE;
	/* A writer waits for others of its segment. */
	ramd->tags.flags = BLK_MQ_F_BLOCKING;
	err = blk_mq_alloc_tag_set(&ramd->tags);
	if (err)
		return err;
	disk = blk_mq_alloc_disk(&ramd->tags, &limits, ramd);
	if (IS_ERR(disk)) {
		err = PTR_ERR(disk);
		goto err_tags;
	}
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
err_tags:
	blk_mq_free_tag_set(&ramd->tags);
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
	blk_mq_free_tag_set(&ramd->tags);
	ida_free(&numbers, ramd->number);
	close_segment(ramd);
	kfree(ramd);
}

static int remove_by_name(const char *name)
{
	struct pmramd *ramd = find(name);

	if (!ramd)
		return -ENOENT;
	if (disk_openers(ramd->disk))
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
