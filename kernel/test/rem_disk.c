// SPDX-License-Identifier: GPL-2.0-only
/*
 * For measurements: a disk with a volatile write cache, /dev/rem_disk, whose answers take the
 * time that the parameters say, by the guest's clock. Its data are in memory.
 *
 *   read, write   read_ns or write_ns after the bytes have passed the link, one request's after
 *                 the other's; these times overlap
 *   flush         flush_ns after all earlier writes have been answered, one flush after the other
 *   FUA           fua_ns more than the write
 *
 * The copy is made before the answer's time begins to matter, so it costs the CPU and not the
 * answer, as a disk's own DMA would. With fail_writes the answer to each write is an
 * error, and the data are not there. The parameters
 * may be changed at any time.
 */
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

static unsigned long mib = 256;
module_param(mib, ulong, 0444);
MODULE_PARM_DESC(mib, "size");

static unsigned long read_ns;
module_param(read_ns, ulong, 0644);
static unsigned long write_ns;
module_param(write_ns, ulong, 0644);
static unsigned long flush_ns;
module_param(flush_ns, ulong, 0644);
static unsigned long fua_ns;
module_param(fua_ns, ulong, 0644);
static unsigned long bytes_per_us = 1000;
module_param(bytes_per_us, ulong, 0644);

static bool fail_writes;
module_param(fail_writes, bool, 0644);

static unsigned long reads, writes, flushes, fuas;
module_param(reads, ulong, 0444);
module_param(writes, ulong, 0444);
module_param(flushes, ulong, 0444);
module_param(fuas, ulong, 0444);

/* A request whose data have been copied, until its answer. */
struct rem_answer {
	struct list_head list;
	struct bio *bio;
	u64 at_ns;
};

static struct gendisk *rem_disk;
static struct page **rem_pages; /* NULL: has never been written */
static unsigned long rem_pages_count;

/* Protects what follows, and the counts. */
static DEFINE_SPINLOCK(rem_lock);
static LIST_HEAD(rem_answers); /* the next one first */
static struct hrtimer rem_timer;
static u64 rem_link_free_ns; /* the link has passed all bytes so far */
static u64 rem_written_ns;   /* all writes so far have been answered */
static u64 rem_flushed_ns;   /* all flushes so far have ended */

static struct page *rem_page(unsigned long index, bool make)
{
	struct page *page, *other;

	page = READ_ONCE(rem_pages[index]);
	if (page || !make)
		return page;
	page = alloc_page(GFP_NOIO | __GFP_ZERO);
	if (!page)
		return NULL;
	other = cmpxchg(&rem_pages[index], NULL, page);
	if (!other)
		return page;
	__free_page(page);
	return other;
}

/* Returns false if there is no memory. */
static bool rem_copy(struct bio_vec *bvec, u64 at, bool is_write)
{
	size_t done = 0;

	while (done < bvec->bv_len) {
		size_t offset = offset_in_page(at + done);
		size_t bytes =
			min_t(size_t, bvec->bv_len - done, PAGE_SIZE - offset);
		struct page *page =
			rem_page((at + done) >> PAGE_SHIFT, is_write);

		if (is_write && !page)
			return false;
		if (is_write)
			memcpy_page(page, offset, bvec->bv_page,
				    bvec->bv_offset + done, bytes);
		else if (page)
			memcpy_page(bvec->bv_page, bvec->bv_offset + done, page,
				    offset, bytes);
		else
			memzero_page(bvec->bv_page, bvec->bv_offset + done,
				     bytes);
		done += bytes;
	}
	return true;
}

static bool rem_transfer(struct bio *bio)
{
	bool is_write = op_is_write(bio_op(bio)), ok = true;
	struct bvec_iter iter = bio->bi_iter;
	struct bio_vec bvec;

	while (ok && iter.bi_size) {
		bvec = bio_iter_iovec(bio, iter);
		ok = rem_copy(&bvec, (u64)iter.bi_sector << SECTOR_SHIFT,
			      is_write);
		bio_advance_iter_single(bio, &iter, bvec.bv_len);
	}
	return ok;
}

/* When the answer to a request comes that was made at @now_ns. With the lock held. */
static u64 rem_answer_ns(struct bio *bio, unsigned int bytes, u64 now_ns)
{
	u64 at_ns = now_ns;

	if (bio->bi_opf & REQ_PREFLUSH) {
		at_ns = max3(now_ns, rem_written_ns, rem_flushed_ns) + flush_ns;
		rem_flushed_ns = at_ns;
		flushes++;
	}
	if (!bytes)
		return at_ns;
	at_ns = max(at_ns, rem_link_free_ns);
	at_ns += bytes * 1000ULL / max(bytes_per_us, 1UL);
	rem_link_free_ns = at_ns;
	if (!op_is_write(bio_op(bio))) {
		reads++;
		return at_ns + read_ns;
	}
	writes++;
	at_ns += write_ns;
	if (bio->bi_opf & REQ_FUA) {
		at_ns += fua_ns;
		fuas++;
	}
	rem_written_ns = max(rem_written_ns, at_ns);
	return at_ns;
}

static struct rem_answer *rem_first(struct list_head *list)
{
	return list_first_entry_or_null(list, struct rem_answer, list);
}

static void rem_timer_set(u64 at_ns)
{
	hrtimer_start(&rem_timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}

static void rem_insert(struct rem_answer *new)
{
	struct list_head *before = rem_answers.prev;

	while (before != &rem_answers &&
	       list_entry(before, struct rem_answer, list)->at_ns > new->at_ns)
		before = before->prev;
	list_add(&new->list, before);
	if (before == &rem_answers)
		rem_timer_set(new->at_ns);
}

static bool rem_fails(struct bio *bio)
{
	return READ_ONCE(fail_writes) && op_is_write(bio_op(bio)) &&
	       bio_has_data(bio);
}

static void rem_submit(struct bio *bio)
{
	u64 now_ns = ktime_get_ns();
	unsigned int bytes = bio->bi_iter.bi_size;
	struct rem_answer *new = kmalloc(sizeof(*new), GFP_NOIO);
	bool fails = rem_fails(bio);
	unsigned long flags;

	if (!new || (!fails && !rem_transfer(bio))) {
		kfree(new);
		bio_io_error(bio);
		return;
	}
	if (fails)
		bio->bi_status = BLK_STS_IOERR;
	new->bio = bio;
	spin_lock_irqsave(&rem_lock, flags);
	new->at_ns = rem_answer_ns(bio, bytes, now_ns);
	rem_insert(new);
	spin_unlock_irqrestore(&rem_lock, flags);
}

static enum hrtimer_restart rem_timer_rings(struct hrtimer *timer)
{
	struct rem_answer *first;
	u64 now_ns = ktime_get_ns();
	LIST_HEAD(due);
	unsigned long flags;

	spin_lock_irqsave(&rem_lock, flags);
	while ((first = rem_first(&rem_answers)) && first->at_ns <= now_ns)
		list_move_tail(&first->list, &due);
	if (first)
		rem_timer_set(first->at_ns);
	spin_unlock_irqrestore(&rem_lock, flags);
	while ((first = rem_first(&due))) {
		list_del(&first->list);
		bio_endio(first->bio);
		kfree(first);
	}
	return HRTIMER_NORESTART;
}

static const struct block_device_operations rem_operations = {
	.owner = THIS_MODULE,
	.submit_bio = rem_submit,
};

static int __init rem_disk_add(void)
{
	struct queue_limits limits = {
		.logical_block_size = PAGE_SIZE,
		.physical_block_size = PAGE_SIZE,
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
	};
	int err;

	rem_disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(rem_disk))
		return PTR_ERR(rem_disk);
	rem_disk->fops = &rem_operations;
	strscpy(rem_disk->disk_name, "rem_disk", DISK_NAME_LEN);
	set_capacity(rem_disk, rem_pages_count << PAGE_SECTORS_SHIFT);
	err = add_disk(rem_disk);
	if (err)
		put_disk(rem_disk);
	return err;
}

static int __init rem_disk_init(void)
{
	int err;

	rem_pages_count = mib << (20 - PAGE_SHIFT);
	rem_pages = vcalloc(rem_pages_count, sizeof(*rem_pages));
	if (!rem_pages)
		return -ENOMEM;
	hrtimer_init(&rem_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	rem_timer.function = rem_timer_rings;
	err = rem_disk_add();
	if (err)
		vfree(rem_pages);
	return err;
}

static void __exit rem_disk_exit(void)
{
	unsigned long index;

	del_gendisk(rem_disk);
	put_disk(rem_disk);
	hrtimer_cancel(&rem_timer);
	for (index = 0; index < rem_pages_count; index++)
		if (rem_pages[index])
			__free_page(rem_pages[index]);
	vfree(rem_pages);
}

module_init(rem_disk_init);
module_exit(rem_disk_exit);
MODULE_DESCRIPTION("A disk whose answers take modelled time, for tests");
MODULE_LICENSE("GPL");
