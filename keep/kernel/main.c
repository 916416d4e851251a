// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rem_keep: see rem_keep_uapi.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <asm/smp.h>

#include "keep_range.h"

static unsigned long long start;
module_param(start, ullong, 0444);
MODULE_PARM_DESC(start,
		 "physical address of the range, a multiple of a memory block");
static unsigned long long bytes;
module_param(bytes, ullong, 0444);
MODULE_PARM_DESC(bytes, "size of the range, a multiple of a memory block");

/* The part of a transfer that lies in one page; 0 at the end of the range. */
static size_t part(loff_t at, size_t count)
{
	if (at < 0 || at >= keep.bytes)
		return 0;
	return min_t(size_t, count, PAGE_SIZE - offset_in_page(at));
}

/* The held page at @at, mapped; or an error. Called with keep.lock held. */
static void *held_at(loff_t at)
{
	u32 frame = at >> PAGE_SHIFT;

	if (!keep_is_held(frame, 1))
		return ERR_PTR(-EBUSY);
	return page_address(keep_page(frame)) + offset_in_page(at);
}

static ssize_t keep_read(struct file *file, char __user *to, size_t count,
			 loff_t *at)
{
	size_t done = 0, once;

	while ((once = part(*at, count - done))) {
		int err = mutex_lock_interruptible(&keep.lock);
		void *from;

		if (err)
			return done ?: err;
		from = held_at(*at);
		if (IS_ERR(from))
			err = PTR_ERR(from);
		else if (copy_to_user(to + done, from, once))
			err = -EFAULT;
		mutex_unlock(&keep.lock);
		if (err)
			return done ?: err;
		done += once;
		*at += once;
		cond_resched();
	}
	return done;
}

static ssize_t keep_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	size_t done = 0, once;
	int err = 0;

	while (!err && (once = part(iocb->ki_pos, iov_iter_count(from)))) {
		size_t copied = 0;
		void *to;

		err = mutex_lock_interruptible(&keep.lock);
		if (err)
			break;
		to = held_at(iocb->ki_pos);
		if (IS_ERR(to))
			err = PTR_ERR(to);
		else
			copied = _copy_from_iter_flushcache(to, once, from);
		mutex_unlock(&keep.lock);
		if (!err && copied < once)
			err = -EFAULT;
		done += copied;
		iocb->ki_pos += copied;
		cond_resched();
	}
	/* Before this returns the stores are in the power-fail domain. */
	wmb();
	return done ?: err;
}

static long info(struct rem_keep_info __user *argument)
{
	struct rem_keep_info found = {
		.start = keep.start,
		.pages = keep.pages,
		.node = keep.node,
		.held = bitmap_weight(keep.held, keep.pages),
	};

	return copy_to_user(argument, &found, sizeof(found)) ? -EFAULT : 0;
}

static long free_span(struct rem_keep_span __user *argument)
{
	struct rem_keep_span span;

	if (copy_from_user(&span, argument, sizeof(span)))
		return -EFAULT;
	return keep_free(span.first, span.pages);
}

static long keep_ioctl(struct file *file, unsigned int command,
		       unsigned long argument)
{
	void __user *user = (void __user *)argument;
	long err;

	if (command == REM_KEEP_FLUSH) {
		wbinvd_on_all_cpus();
		return 0;
	}
	err = mutex_lock_interruptible(&keep.lock);
	if (err)
		return err;
	switch (command) {
	case REM_KEEP_INFO:
		err = info(user);
		break;
	case REM_KEEP_FREE:
		err = free_span(user);
		break;
	case REM_KEEP_TAKE:
		err = keep_take(user);
		break;
	case REM_KEEP_PUT:
		err = keep_put(user);
		break;
	case REM_KEEP_PIN:
		err = keep_pin(user);
		break;
	case REM_KEEP_UNPIN:
		err = keep_unpin();
		break;
	case REM_KEEP_SHARE:
		err = keep_share(user);
		break;
	case REM_KEEP_UNSHARE:
		err = keep_unshare(user);
		break;
	default:
		err = -ENOTTY;
	}
	mutex_unlock(&keep.lock);
	return err;
}

static loff_t keep_seek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence, keep.bytes);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.read = keep_read,
	.write_iter = keep_write_iter,
	.llseek = keep_seek,
	.unlocked_ioctl = keep_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rem_keep",
	.fops = &operations,
	.mode = 0600,
};

/* There is no exit: programs have pages of the range until the next boot. */
static int __init keep_init(void)
{
	int err = keep_range_add(start, bytes);

	if (err)
		return err;
	err = misc_register(&device);
	if (err)
		/* The memory stays, offline. A module that fails here must stay, too. */
		pr_err("no /dev/rem_keep: %d\n", err);
	return 0;
}
module_init(keep_init);

MODULE_DESCRIPTION("Pages of programs that outlive the kernel");
MODULE_AUTHOR("The Remanence authors");
MODULE_LICENSE("GPL");
