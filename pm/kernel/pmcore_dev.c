// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/pm/NAME: a raw segment as a file that is read, written and mapped.
 * What write() wrote is durable when it returns; what was stored through a
 * mapping is after msync(), fsync(), or the program's own flush and fence.
 *
 * Content is reached without the lock: an open file, and a mapping holds one,
 * is a user, and a segment with users stays where it is and only grows. With
 * the lock, a copy that meets a page of such a mapping would wait for itself.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/pfn_t.h>
#include <linux/uio.h>

#include "pmcore.h"

static dev_t first_dev;
static struct cdev cdev;

static struct rem_pm_segment *record_of(u32 slot)
{
	return &pmcore.region.entry[slot].record;
}

static u32 slot_of(const struct file *file)
{
	return iminor(file_inode(file));
}

static int may_open(u32 slot, int mask)
{
	if (slot >= pmcore.region.super.slots ||
	    pmcore.region.entry[slot].state != PM_SLOT_USED)
		return -ENXIO;
	if (record_of(slot)->type != REM_PM_RAW)
		return -EMEDIUMTYPE; /* its blocks are pmbc's */
	if (!pmcore_may(record_of(slot), mask))
		return -EACCES;
	if (mask & MAY_WRITE && pmcore.slot[slot].claimed)
		return -EBUSY; /* it is a disk: what is mounted must not change below it */
	return 0;
}

static int pm_open(struct inode *inode, struct file *file)
{
	int mask = (file->f_mode & FMODE_READ ? MAY_READ : 0) |
		   (file->f_mode & FMODE_WRITE ? MAY_WRITE : 0);
	u32 slot = iminor(inode);
	struct pmcore_slot *is = &pmcore.slot[slot];
	int err;

	down_write(&pmcore.lock);
	if (pmcore_lock_settled(slot) == -EINTR)
		return -EINTR;
	err = may_open(slot, mask);
	if (!err) {
		is->users++;
		is->files++;
		is->writers += !!(mask & MAY_WRITE);
		/* Of a device there may be several nodes, each with its inode. */
		if (!is->inode)
			is->inode = igrab(inode);
		file->f_mapping = is->inode->i_mapping;
	}
	up_write(&pmcore.lock);
	if (!err)
		file->private_data = pmcore_env(slot);
	return err;
}

static int pm_release(struct inode *inode, struct file *file)
{
	struct pmcore_slot *is = &pmcore.slot[iminor(inode)];
	struct inode *unused = NULL;

	down_write(&pmcore.lock);
	is->users--;
	is->writers -= !!(file->f_mode & FMODE_WRITE);
	if (!--is->files) {
		unused = is->inode;
		is->inode = NULL;
	}
	up_write(&pmcore.lock);
	if (unused)
		iput(unused);
	return 0;
}

/* How much of @count there is from @at on. */
static size_t rest(u32 slot, loff_t at, size_t count)
{
	u64 bytes = READ_ONCE(record_of(slot)->bytes);

	return at < 0 || at >= bytes ? 0 : min_t(u64, count, bytes - at);
}

static ssize_t pm_read(struct kiocb *kiocb, struct iov_iter *to)
{
	u32 slot = slot_of(kiocb->ki_filp);
	const void *from = pm_segment_at(&pmcore.region, slot) + kiocb->ki_pos;
	size_t wanted, count;

	wanted = rest(slot, kiocb->ki_pos, iov_iter_count(to));
	count = _copy_mc_to_iter(from, pmcore_readable(from, wanted), to);
	kiocb->ki_pos += count;
	if (!wanted || count)
		return count;
	/* From here on, or in the page where it began. */
	return pmcore_lost_find(from, min(wanted, PAGE_SIZE)) ? -EIO : -EFAULT;
}

/* A window is open without preemption, and so without faults of the program's. */
static size_t write_by_pages(u32 slot, struct pm_env *env, loff_t at,
			     struct iov_iter *from, size_t count)
{
	void *to = pm_segment_at(&pmcore.region, slot) + at;
	void *page = (void *)__get_free_page(GFP_KERNEL);
	size_t done = 0;

	while (page && done < count) {
		size_t now = min(count - done, PAGE_SIZE);
		size_t got = copy_from_iter(page, now, from);

		pm_copy(env, to + done, page, got);
		done += got;
		if (got < now)
			break;
	}
	free_page((unsigned long)page);
	return done;
}

static size_t write_here(u32 slot, loff_t at, struct iov_iter *from,
			 size_t count)
{
	void *to = pm_segment_at(&pmcore.region, slot) + at;

	pmcore_lost_write(to, count);
	count = _copy_from_iter_flushcache(to, count, from);
	pmcore_lost_written(to, count);
	return count;
}

static ssize_t pm_write(struct kiocb *kiocb, struct iov_iter *from)
{
	u32 slot = slot_of(kiocb->ki_filp);
	struct pm_env *env = kiocb->ki_filp->private_data;
	size_t wanted = iov_iter_count(from);
	size_t count;

	count = rest(slot, kiocb->ki_pos, wanted);
	if (wanted && !count)
		return -ENOSPC;
	if (pmcore.protected || env)
		count = write_by_pages(slot, env, kiocb->ki_pos, from, count);
	else
		count = write_here(slot, kiocb->ki_pos, from, count);
	pm_fence(env);
	kiocb->ki_pos += count;
	return wanted && !count ? -EFAULT : count;
}

static loff_t pm_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t bytes;

	bytes = record_of(slot_of(file))->bytes;
	return fixed_size_llseek(file, offset, whence, bytes);
}

static int pm_fsync(struct file *file, loff_t start, loff_t end, int data_only)
{
	struct pm_env *env = file->private_data;
	u32 slot = slot_of(file);
	size_t count;

	count = rest(slot, start, min_t(u64, end - start, SIZE_MAX - 1) + 1);
	if (count && !pmcore_stays(env))
		pmcore_dirty_flush(file->f_mapping, slot, start, count);
	pm_fence(env);
	return 0;
}

/*
 * The frame of a page of a mapping, where @pages fit into the segment's extent
 * and frame and address are aligned to them; else 0.
 */
static unsigned long frame_of(struct vm_fault *vmf, unsigned long pages)
{
	const struct rem_pm_segment *record =
		record_of(slot_of(vmf->vma->vm_file));
	u64 first = round_down(vmf->pgoff, pages);
	unsigned long frame = PHYS_PFN(pmcore.phys + record->offset) + first;

	if ((first + pages) * PAGE_SIZE > READ_ONCE(record->extent_bytes))
		return 0;
	return frame % pages ? 0 : frame;
}

#ifdef PM_TESTS
#define HOLD_MS 10
#define HOLD_MAX_MS 20000

/* 1: who is about to map a page for writing waits; it is 2 then, until a test says 0. */
static uint hold_mkwrite;
module_param(hold_mkwrite, uint, 0600);
MODULE_PARM_DESC(hold_mkwrite, "for tests: hold the first store to a page");

static void hold(void)
{
	uint waited_ms;

	if (cmpxchg(&hold_mkwrite, 1, 2) != 1)
		return;
	for (waited_ms = 0; waited_ms < HOLD_MAX_MS && READ_ONCE(hold_mkwrite);
	     waited_ms += HOLD_MS)
		msleep(HOLD_MS);
}
#else
static void hold(void)
{
}
#endif

/*
 * A page is mapped for writing only here and by pm_huge_fault(), with its bit (dirty.c):
 * both under one lock, so that a sync comes before both or behind both. The kernel's own
 * way to make a page writable that is mapped for reading is not enough: it does so behind
 * pfn_mkwrite(), if the entry is the one from before. After a sync and a read it is.
 */
static vm_fault_t map_for_writing(struct vm_fault *vmf, unsigned long frame)
{
	struct vm_area_struct *vma = vmf->vma;
	struct address_space *mapping = vma->vm_file->f_mapping;
	vm_fault_t ret;

	filemap_invalidate_lock_shared(mapping);
	pmcore_dirty_set(slot_of(vma->vm_file), vmf->pgoff, 1);
	hold();
	/* An entry that is there stays as it is, so there must be none. */
	if (vmf->flags & FAULT_FLAG_MKWRITE)
		zap_vma_ptes(vma, vmf->address & PAGE_MASK, PAGE_SIZE);
	ret = vmf_insert_pfn_prot(vma, vmf->address, frame,
				  vm_get_page_prot(vma->vm_flags));
	filemap_invalidate_unlock_shared(mapping);
	return ret;
}

/*
 * Of a private mapping each page is a copy from its first use on. Were the segment's frame
 * mapped until the first store, a store by another process (a debugger) would spoil the
 * rest of the page: the kernel copies a frame without a page from the address where it
 * is mapped, in the process that stores.
 */
static vm_fault_t fault_copy(struct vm_fault *vmf)
{
	const void *content =
		pm_segment_at(&pmcore.region, slot_of(vmf->vma->vm_file)) +
		(u64)vmf->pgoff * PAGE_SIZE;
	struct page *page = alloc_page(GFP_KERNEL_ACCOUNT);

	if (!page)
		return VM_FAULT_OOM;
	if (!pm_fetch(page_address(page), content, PAGE_SIZE)) {
		__free_page(page);
		pmcore_lost_find(content, PAGE_SIZE);
		return VM_FAULT_HWPOISON;
	}
	vmf->page = page;
	return 0;
}

static vm_fault_t pm_fault(struct vm_fault *vmf)
{
	unsigned long frame = frame_of(vmf, 1);

	if (!frame)
		return VM_FAULT_SIGBUS;
	if (is_cow_mapping(vmf->vma->vm_flags))
		return fault_copy(vmf);
	if (vmf->flags & FAULT_FLAG_WRITE)
		return map_for_writing(vmf, frame);
	return vmf_insert_pfn(vmf->vma, vmf->address, frame);
}

static vm_fault_t pm_mkwrite(struct vm_fault *vmf)
{
	unsigned long frame = frame_of(vmf, 1);

	return frame ? map_for_writing(vmf, frame) : VM_FAULT_SIGBUS;
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
static vm_fault_t pm_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct address_space *mapping = vmf->vma->vm_file->f_mapping;
	unsigned long start = vmf->address & PMD_MASK;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	unsigned long frame;

	if (order != PMD_ORDER || is_cow_mapping(vmf->vma->vm_flags) ||
	    start < vmf->vma->vm_start ||
	    start + PMD_SIZE > vmf->vma->vm_end ||
	    linear_page_index(vmf->vma, start) % (PMD_SIZE / PAGE_SIZE))
		return ret;
	frame = frame_of(vmf, PMD_SIZE / PAGE_SIZE);
	if (!frame)
		return ret;
	filemap_invalidate_lock_shared(mapping);
	if (vmf->flags & FAULT_FLAG_WRITE)
		pmcore_dirty_set(slot_of(vmf->vma->vm_file),
				 linear_page_index(vmf->vma, start),
				 PMD_SIZE / PAGE_SIZE);
	ret = vmf_insert_pfn_pmd(vmf, __pfn_to_pfn_t(frame, PFN_DEV),
				 vmf->flags & FAULT_FLAG_WRITE);
	filemap_invalidate_unlock_shared(mapping);
	return ret;
}
#endif

/*
 * A debugger's way into a shared mapping, as the frames are not the kernel's own to lend:
 * what is read and stored is the segment's content.
 */
static int pm_access(struct vm_area_struct *vma, unsigned long address,
		     void *buffer, int bytes, int write)
{
	u32 slot = slot_of(vma->vm_file);
	struct pm_env *env = vma->vm_file->private_data;
	u64 at = address - vma->vm_start + (u64)vma->vm_pgoff * PAGE_SIZE;
	u64 end = READ_ONCE(record_of(slot)->extent_bytes);
	void *content = pm_segment_at(&pmcore.region, slot) + at;

	if (bytes <= 0 || at >= end)
		return -EFAULT;
	bytes = min_t(u64, bytes, end - at);
	if (!write)
		return pm_fetch(buffer, content, bytes) ? bytes : -EIO;
	if ((vma->vm_flags & (VM_SHARED | VM_WRITE)) != (VM_SHARED | VM_WRITE))
		return -EFAULT;
	pm_copy(env, content, buffer, bytes);
	pm_fence(env);
	return bytes;
}

static const struct vm_operations_struct pm_vm_operations = {
	.fault = pm_fault,
	.pfn_mkwrite = pm_mkwrite,
	.access = pm_access,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.huge_fault = pm_huge_fault,
#endif
};

static int pm_mmap(struct file *file, struct vm_area_struct *vma)
{
	/*
	 * The kernel's own mapping of the frames is for reading: nothing may be
	 * given to a driver that stores there, and so nothing is pinned
	 * (O_DIRECT). A DAX file system on the segment's disk has that. A
	 * private mapping has only copies, which are pages like others.
	 */
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP |
			  (is_cow_mapping(vma->vm_flags) ? 0 : VM_PFNMAP));
	vma->vm_ops = &pm_vm_operations;
	return 0;
}

static const struct file_operations pm_operations = {
	.owner = THIS_MODULE,
	.open = pm_open,
	.release = pm_release,
	.read_iter = pm_read,
	.write_iter = pm_write,
	.llseek = pm_llseek,
	.fsync = pm_fsync,
	.mmap = pm_mmap,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = thp_get_unmapped_area,
#endif
};

static char *devnode(const struct device *device, umode_t *mode, kuid_t *uid,
		     kgid_t *gid)
{
	const struct rem_pm_segment *record = record_of(MINOR(device->devt));

	/* When the file is removed only the name is needed. */
	if (mode)
		*mode = record->mode;
	if (uid)
		*uid = make_kuid(&init_user_ns, record->uid);
	if (gid)
		*gid = make_kgid(&init_user_ns, record->gid);
	return NULL;
}

static const struct device_type pm_type = {
	.name = "pm_segment",
	.devnode = devnode,
};

static const struct class pm_class = {
	.name = "pm",
	.dev_groups = pmcore_segment_groups,
};

static void release(struct device *device)
{
	kfree(device);
}

/**
 * pmcore_dev_add() - make /dev/pm/NAME of a raw segment
 * @slot: the segment
 *
 * Context: may sleep; the caller holds the lock.
 */
int pmcore_dev_add(u32 slot)
{
	struct device *device;
	int err;

	if (record_of(slot)->type != REM_PM_RAW)
		return 0;
	device = kzalloc(sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	device_initialize(device);
	device->class = &pm_class;
	device->type = &pm_type;
	device->devt = MKDEV(MAJOR(first_dev), slot);
	device->release = release;
	err = dev_set_name(device, "pm!%s", record_of(slot)->name);
	if (!err)
		err = device_add(device);
	if (err)
		put_device(device);
	else
		pmcore.slot[slot].device = device;
	return err;
}

/**
 * pmcore_dev_remove() - remove it
 * @slot: the segment
 */
void pmcore_dev_remove(u32 slot)
{
	if (pmcore.slot[slot].device)
		device_unregister(pmcore.slot[slot].device);
	pmcore.slot[slot].device = NULL;
}

static void remove_all(void)
{
	u32 slot;

	for (slot = 0; slot < pmcore.region.super.slots; slot++)
		pmcore_dev_remove(slot);
}

/**
 * pmcore_dev_init() - make the files of all segments that there are
 */
int pmcore_dev_init(void)
{
	u32 count = pmcore.region.super.slots;
	u32 slot;
	int err;

	err = class_register(&pm_class);
	if (err)
		return err;
	err = alloc_chrdev_region(&first_dev, 0, count, "pm");
	if (err)
		goto err_class;
	cdev_init(&cdev, &pm_operations);
	cdev.owner = THIS_MODULE;
	err = cdev_add(&cdev, first_dev, count);
	if (err)
		goto err_region;
	for (slot = 0; slot < count && !err; slot++)
		if (pmcore.region.entry[slot].state == PM_SLOT_USED)
			err = pmcore_dev_add(slot);
	if (!err)
		return 0;
	remove_all();
	cdev_del(&cdev);
err_region:
	unregister_chrdev_region(first_dev, count);
err_class:
	class_unregister(&pm_class);
	return err;
}

/**
 * pmcore_dev_exit() - remove all files
 */
void pmcore_dev_exit(void)
{
	remove_all();
	cdev_del(&cdev);
	unregister_chrdev_region(first_dev, pmcore.region.super.slots);
	class_unregister(&pm_class);
}
