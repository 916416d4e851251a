// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: pmbc
 *
 * Block segments: transactions over many blocks, a check of each block at each
 * read, and a scrub that goes over all of them in the background. What is done
 * on media is the core's (block.h).
 */
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "pmbc.h"
#include "pmbc_lock.h"
#include "pmcore.h"

#define CREATE_TRACE_POINTS
#include "pmbc_trace.h"

#define TRANSACTION_BYTES 1048576 /* that the journal is laid out for */
#define TRANSACTION_BLOCKS_MIN 8
#define SPARE_SHARE 16
#define TRANSACTION_BLOCKS_MAX 256
#define LANES 2

struct pmbc {
	struct list_head list;
	u32 users;
	struct pmcore_segment segment;
	struct rw_semaphore lock; /* of block and of what it is on */
	struct pm_block block;
	void *memory;
	u64 scrub_next;
	bool claimed; /* it is a disk */
	struct pmbc_lock programs; /* among programs that ask for it */
};

/* What a file of /dev/pmbc last used; opening costs time with each block. */
struct pmbc_file {
	struct mutex lock; /* of what follows */
	struct pmbc *pmbc;
	int mask;
	struct pmbc_turn turn; /* granted: this file holds @pmbc's lock */
};

static LIST_HEAD(segments);
static DEFINE_MUTEX(segments_lock); /* of the list and of users */

static uint scrub_blocks_per_s = 64;
module_param(scrub_blocks_per_s, uint, 0644);
MODULE_PARM_DESC(scrub_blocks_per_s,
		 "blocks of each open segment that are looked at each second, 0 = none");

/* As many blocks as a transaction may have are spare: not much of the whole. */
static u32 transaction_blocks(const struct pmcore_segment *segment)
{
	u64 blocks = segment->bytes / segment->block_bytes / SPARE_SHARE;
	u64 most = TRANSACTION_BYTES / segment->block_bytes;

	return clamp_t(u64, min(blocks, most), TRANSACTION_BLOCKS_MIN,
		       TRANSACTION_BLOCKS_MAX);
}

/**
 * pmbc_fill_format() - how a segment is laid out
 * @segment: what it is, with the size that it is to have
 * @format: filled in
 */
void pmbc_fill_format(const struct pmcore_segment *segment,
		      struct pm_block_format *format)
{
	*format = (struct pm_block_format){
		.segment_bytes = segment->bytes,
		.block_bytes = segment->block_bytes,
		.lanes = LANES,
		.lane_entries = transaction_blocks(segment),
	};
	memcpy(format->uuid, segment->uuid, sizeof(format->uuid));
}

static int lay_out(const struct pmcore_segment *segment)
{
	struct pm_block_format format;
	int err;

	pmbc_fill_format(segment, &format);
	err = pm_block_check_blank(NULL, segment->at, &format);
	if (err)
		return err;
	return pm_block_format(NULL, segment->at, &format);
}

static int open_blocks(struct pmbc *pmbc)
{
	const struct pmcore_segment *segment = &pmbc->segment;
	struct rem_pm_block_header header;
	int err;

	if (segment->type != REM_PM_BLOCK)
		return -EMEDIUMTYPE;
	err = pm_block_peek(segment->at, segment->bytes, segment->uuid,
			    &header);
	if (err == -ENOMEDIUM) {
		err = lay_out(segment);
		if (!err)
			err = pm_block_peek(segment->at, segment->bytes,
					    segment->uuid, &header);
	}
	if (err)
		return err;
	pmbc->memory = kvzalloc(pm_block_volatile_bytes(&header), GFP_KERNEL);
	if (!pmbc->memory)
		return -ENOMEM;
	return pm_block_open(&pmbc->block, segment->env, segment->at, segment->bytes,
			     segment->uuid, pmbc->memory, true);
}

static struct pmbc *make(const struct pmcore_segment *segment)
{
	struct pmbc *pmbc = kzalloc(sizeof(*pmbc), GFP_KERNEL);
	int err;

	if (!pmbc)
		return ERR_PTR(-ENOMEM);
	pmbc->segment = *segment;
	init_rwsem(&pmbc->lock);
	pmbc_lock_init(&pmbc->programs);
	err = open_blocks(pmbc);
	if (err) {
		kvfree(pmbc->memory);
		kfree(pmbc);
		return ERR_PTR(err);
	}
	list_add(&pmbc->list, &segments);
	return pmbc;
}

struct pmbc *pmbc_open(const char *name, int mask)
{
	struct pmcore_segment segment;
	struct pmbc *pmbc;
	int err = pmcore_get(name, mask, &segment);

	if (err)
		return ERR_PTR(err);
	mutex_lock(&segments_lock);
	list_for_each_entry(pmbc, &segments, list) {
		if (pmbc->segment.slot != segment.slot)
			continue;
		pmbc->users++; /* one hold of pmcore's is enough for all */
		mutex_unlock(&segments_lock);
		pmcore_put(&segment);
		return pmbc;
	}
	pmbc = make(&segment);
	if (IS_ERR(pmbc))
		pmcore_put(&segment);
	else
		pmbc->users = 1;
	mutex_unlock(&segments_lock);
	return pmbc;
}
EXPORT_SYMBOL_GPL(pmbc_open);

void pmbc_close(struct pmbc *pmbc)
{
	mutex_lock(&segments_lock);
	if (!--pmbc->users) {
		list_del(&pmbc->list);
		pmcore_put(&pmbc->segment);
		kvfree(pmbc->memory);
		kfree(pmbc);
	}
	mutex_unlock(&segments_lock);
}
EXPORT_SYMBOL_GPL(pmbc_close);

void pmbc_claim(struct pmbc *pmbc, bool claimed)
{
	WRITE_ONCE(pmbc->claimed, claimed);
}
EXPORT_SYMBOL_GPL(pmbc_claim);

/* One block at a time, so that nobody waits for more than that. */
static void scrub_one(struct pmbc *pmbc, u64 number)
{
	u64 bad;

	down_write(&pmbc->lock);
	bad = pmbc->block.bad_count;
	pm_block_scrub(&pmbc->block, number);
	bad = pmbc->block.bad_count - bad;
	up_write(&pmbc->lock);
	if (bad == 1)
		pr_warn_ratelimited("pmbc: %s: block %llu is damaged\n",
				    pmbc->segment.name, number);
}

static void scrub_base(struct pmbc *pmbc)
{
	down_write(&pmbc->lock);
	pm_block_scrub_base(&pmbc->block);
	up_write(&pmbc->lock);
}

/* A reader has found a block damaged: it is on the list, until it is written. */
static void remember(struct pmbc *pmbc, u64 number)
{
	trace_pmbc_damage(pmbc->segment.name, number);
	scrub_one(pmbc, number);
}

int pmbc_read(struct pmbc *pmbc, const struct pm_block_to *io, u32 count)
{
	int err = 0;
	u32 i;

	down_read(&pmbc->lock);
	for (i = 0; i < count && !err; i++)
		err = pm_block_read(&pmbc->block, io[i].block, io[i].data);
	up_read(&pmbc->lock);
	if (err == -EBADMSG)
		remember(pmbc, io[i - 1].block);
	return err;
}
EXPORT_SYMBOL_GPL(pmbc_read);

int pmbc_write(struct pmbc *pmbc, const struct pm_block_io *io, u32 count)
{
	int err;

	down_write(&pmbc->lock);
	err = pm_block_write(&pmbc->block, io, count);
	up_write(&pmbc->lock);
	trace_pmbc_transaction(pmbc->segment.name, count, err);
	return err;
}
EXPORT_SYMBOL_GPL(pmbc_write);

u32 pmbc_transaction_max(const struct pmbc *pmbc)
{
	return pmbc->block.lane_entries;
}
EXPORT_SYMBOL_GPL(pmbc_transaction_max);

u32 pmbc_block_bytes(const struct pmbc *pmbc)
{
	return pmbc->block.header.block_bytes;
}
EXPORT_SYMBOL_GPL(pmbc_block_bytes);

u64 pmbc_blocks(const struct pmbc *pmbc)
{
	return pmbc->block.header.blocks;
}
EXPORT_SYMBOL_GPL(pmbc_blocks);

static void scrub_some(struct work_struct *work);
static DECLARE_DELAYED_WORK(scrub_work, scrub_some);

static void scrub_some(struct work_struct *work)
{
	struct pmbc *pmbc;
	uint i;

	mutex_lock(&segments_lock);
	list_for_each_entry(pmbc, &segments, list) {
		u64 blocks = pmbc->block.header.blocks;

		for (i = 0; i < scrub_blocks_per_s && i < blocks; i++) {
			if (!pmbc->scrub_next)
				scrub_base(pmbc);
			scrub_one(pmbc, pmbc->scrub_next);
			pmbc->scrub_next = (pmbc->scrub_next + 1) % blocks;
			cond_resched();
		}
	}
	mutex_unlock(&segments_lock);
	schedule_delayed_work(&scrub_work, HZ);
}

/* The segment of a name for a file, with at least the rights of @mask. */
static struct pmbc *use(struct pmbc_file *of, const char *name, int mask)
{
	struct pmbc *pmbc = of->pmbc;

	if (strnlen(name, PM_NAME_BYTES) == PM_NAME_BYTES)
		return ERR_PTR(-EINVAL);
	if (pmbc && (of->mask & mask) == mask &&
	    !strcmp(pmbc->segment.name, name))
		return pmbc;
	pmbc = pmbc_open(name, mask);
	if (IS_ERR(pmbc))
		return pmbc;
	if (of->turn.granted && pmbc != of->pmbc) {
		pmbc_close(pmbc);
		return ERR_PTR(-EBUSY); /* it holds the lock of another */
	}
	if (of->pmbc)
		pmbc_close(of->pmbc);
	of->pmbc = pmbc;
	of->mask = mask;
	return pmbc;
}

static long status(struct pmbc_file *of, void __user *user, bool scrubs)
{
	struct pm_ioc_block_status out;
	const struct pm_block *block;
	struct pmbc *pmbc;
	u64 i;

	if (copy_from_user(&out, user, sizeof(out)))
		return -EFAULT;
	pmbc = use(of, out.name, scrubs ? MAY_READ | MAY_WRITE : MAY_READ);
	if (IS_ERR(pmbc))
		return PTR_ERR(pmbc);
	for (i = 0; scrubs && i < pmbc_blocks(pmbc); i++) {
		scrub_one(pmbc, i);
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	block = &pmbc->block;
	down_write(&pmbc->lock);
	if (scrubs)
		pm_block_scrub_base(&pmbc->block);
	out.blocks = block->header.blocks;
	out.places = block->header.places;
	out.free_places = block->free_count;
	out.bad_blocks = block->bad_count;
	out.repaired = block->repaired;
	out.replayed = block->replayed;
	out.mismatches = block->mismatches;
	out.block_bytes = block->header.block_bytes;
	out.transaction_blocks = block->lane_entries;
	up_write(&pmbc->lock);
	memset(out.reserved, 0, sizeof(out.reserved));
	return copy_to_user(user, &out, sizeof(out)) ? -EFAULT : 0;
}

static long list_bad(struct pmbc_file *of, struct pm_ioc_bad __user *user)
{
	struct pm_ioc_bad in;
	struct pmbc *pmbc;
	u64 *list, number;
	u32 count = 0;
	long err = 0;

	if (copy_from_user(&in, user, sizeof(in)))
		return -EFAULT;
	if (in.reserved || in.count > PM_BAD_MAX)
		return -EINVAL;
	pmbc = use(of, in.name, MAY_READ);
	if (IS_ERR(pmbc))
		return PTR_ERR(pmbc);
	list = kvmalloc_array(in.count + 1, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	down_read(&pmbc->lock);
	number = pm_block_next_bad(&pmbc->block, in.first);
	while (count < in.count && number < pmbc_blocks(pmbc)) {
		list[count++] = number;
		number = pm_block_next_bad(&pmbc->block, number + 1);
	}
	up_read(&pmbc->lock);
	if (copy_to_user(u64_to_user_ptr(in.blocks), list,
			 count * sizeof(*list)) ||
	    put_user(count, &user->count))
		err = -EFAULT;
	kvfree(list);
	return err;
}

static long transfer(struct pmbc_file *of, void __user *user, bool writes)
{
	struct pm_ioc_transfer in;
	struct pmbc *pmbc;

	if (copy_from_user(&in, user, sizeof(in)))
		return -EFAULT;
	if (in.reserved)
		return -EINVAL;
	pmbc = use(of, in.name, writes ? MAY_WRITE : MAY_READ);
	if (IS_ERR(pmbc))
		return PTR_ERR(pmbc);
	/* What is mounted must not change below it. */
	if (writes && READ_ONCE(pmbc->claimed))
		return -EBUSY;
	return pmbc_transfer(pmbc, u64_to_user_ptr(in.io), in.count, writes);
}

static long lock(struct pmbc_file *of, const void __user *user)
{
	struct pm_ioc_lock in;
	struct pmbc *pmbc;

	if (copy_from_user(&in, user, sizeof(in)))
		return -EFAULT;
	if (in.mode > PM_LOCK_EXCLUSIVE || in.flags & ~PM_LOCK_AT_ONCE)
		return -EINVAL;
	pmbc = use(of, in.name,
		   in.mode == PM_LOCK_EXCLUSIVE ? MAY_WRITE : MAY_READ);
	if (IS_ERR(pmbc))
		return PTR_ERR(pmbc);
	if (in.mode == PM_LOCK_NONE) {
		if (!of->turn.granted)
			return -ENOLCK;
		pmbc_unlock(&pmbc->programs, &of->turn);
		return 0;
	}
	if (of->turn.granted)
		return -EDEADLK;
	return pmbc_lock(&pmbc->programs, &of->turn,
			 in.mode == PM_LOCK_EXCLUSIVE,
			 !(in.flags & PM_LOCK_AT_ONCE));
}

static long pmbc_ioctl(struct file *file, unsigned int command,
		       unsigned long argument)
{
	struct pmbc_file *of = file->private_data;
	void __user *user = (void __user *)argument;
	long err;

	/* Another thread may wait for a lock by the same file. */
	if (mutex_lock_interruptible(&of->lock))
		return -ERESTARTSYS;
	switch (command) {
	case PMBC_IOC_STATUS:
	case PMBC_IOC_SCRUB:
		err = status(of, user, command == PMBC_IOC_SCRUB);
		break;
	case PMBC_IOC_READ:
	case PMBC_IOC_WRITE:
		err = transfer(of, user, command == PMBC_IOC_WRITE);
		break;
	case PMBC_IOC_BAD:
		err = list_bad(of, user);
		break;
	case PMBC_IOC_RESIZE:
		err = pmbc_resize(user);
		break;
	case PMBC_IOC_LOCK:
		err = lock(of, user);
		break;
	default:
		err = -ENOTTY;
	}
	mutex_unlock(&of->lock);
	return err;
}

static int pmbc_file_open(struct inode *inode, struct file *file)
{
	struct pmbc_file *of = kzalloc(sizeof(*of), GFP_KERNEL);

	if (!of)
		return -ENOMEM;
	mutex_init(&of->lock);
	file->private_data = of;
	return 0;
}

static int pmbc_file_release(struct inode *inode, struct file *file)
{
	struct pmbc_file *of = file->private_data;

	if (of->turn.granted)
		pmbc_unlock(&of->pmbc->programs, &of->turn);
	if (of->pmbc)
		pmbc_close(of->pmbc);
	kfree(of);
	return 0;
}

static const struct file_operations pmbc_operations = {
	.owner = THIS_MODULE,
	.open = pmbc_file_open,
	.release = pmbc_file_release,
	.unlocked_ioctl = pmbc_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pmbc",
	.mode = 0666, /* each segment has its own rights */
	.fops = &pmbc_operations,
};

static int __init pmbc_init(void)
{
	int err = misc_register(&device);

	if (!err)
		schedule_delayed_work(&scrub_work, HZ);
	return err;
}

static void __exit pmbc_exit(void)
{
	cancel_delayed_work_sync(&scrub_work);
	misc_deregister(&device);
}

module_init(pmbc_init);
module_exit(pmbc_exit);
MODULE_DESCRIPTION("Persistent memory: checked, transactional blocks");
MODULE_LICENSE("GPL");
