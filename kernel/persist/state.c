// SPDX-License-Identifier: GPL-2.0-only
/*
 * remanence.persist=SIZE: whether an fsync may end in memory, and what administrators
 * see and choose: /sys/kernel/remanence/persist.
 *
 *   off      without the parameter, or the loader has put nothing aside
 *   found    the registry has pages of an earlier kernel, which wait for rem-replay
 *   waiting  the machine does not promise a Stop (rem_promise())
 *   disk     an administrator wants it
 *   memory   in force
 *   caches   the same by the cheaper policy: what is acknowledged may stay in CPU caches,
 *            which a Stop writes back, and a reset or a failed Stop loses
 *
 * Left by writing all that is registered to the disks. Until that has ended, nobody
 * who waits in fsync is told anything: his own is the file system's.
 */
#include <linux/capability.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kdev_t.h>
#include <linux/kobject.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/rwsem.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>

#include "../machine.h"
#include "persist.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

DEFINE_STATIC_KEY_FALSE(rem_persist_key);
EXPORT_SYMBOL_GPL(rem_persist_key);

enum state { OFF, FOUND, WAITING, DISK, MEMORY, CACHES };

static const char *const state_names[] = { "off",  "found",  "waiting",
					   "disk", "memory", "caches" };

/* The loader reads the size (loader/core/registry.c). */
static char *asked;
module_param_named(persist, asked, charp, 0444);
MODULE_PARM_DESC(persist, "Bytes at the end of NVRAM for pages whose fsync ends in memory");

static enum state state;
static const char *off_because = "remanence.persist= was not given";
static bool opened, ending, hibernating;
/* What an administrator wants: DISK, MEMORY or CACHES. */
static enum state asked_for = MEMORY;
/* Held for reading while an fsync ends in memory. */
static DECLARE_RWSEM(state_sem);
/* Of changes of the state, with what they lead to. */
static DEFINE_MUTEX(change_lock);
/* File systems that always use their disk, by device number. */
static DEFINE_XARRAY(excluded);

static bool in_force(enum state one)
{
	return one == MEMORY || one == CACHES;
}

/**
 * rem_persist_enter - begin an fsync that ends in memory
 *
 * Return: false if it may not; else rem_persist_exit() follows.
 */
bool rem_persist_enter(void)
{
	down_read(&state_sem);
	if (in_force(state))
		return true;
	up_read(&state_sem);
	return false;
}

void rem_persist_exit(void)
{
	up_read(&state_sem);
}

/* Those of which it is known what their fsync needs; others keep their own. */
static bool is_supported(const struct super_block *sb)
{
	static const char *const names[] = { "ext4", "ext3", "ext2", "xfs" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(sb->s_type->name, names[i]))
			return true;
	return false;
}

/** rem_persist_covers - Return: whether fsync may end in memory on a file system */
bool rem_persist_covers(struct super_block *sb)
{
	return in_force(READ_ONCE(state)) && sb->s_bdev && is_supported(sb) &&
	       !xa_load(&excluded, sb->s_dev);
}

/** rem_persist_excludes - Return: whether a device always uses its disk */
bool rem_persist_excludes(dev_t dev)
{
	return xa_load(&excluded, dev);
}

static enum state wanted(void)
{
	if (!opened || !rem_registry_pages())
		return rem_registry_found() ? FOUND : OFF;
	if (ending || hibernating || asked_for == DISK)
		return DISK;
	return rem_promise() ? asked_for : WAITING;
}

/* With change_lock held. */
static void update(void)
{
	enum state old = state, new = opened ? wanted() : OFF;

	if (new == old)
		return;
	down_write(&state_sem);
	rem_registry_leave_in_caches(new == CACHES);
	WRITE_ONCE(state, new);
	up_write(&state_sem);
	pr_info("remanence: fsync: %s\n", state_names[new]);
	if (new == CACHES)
		pr_info("remanence: what fsync promises may be in CPU caches only: a reset or a failed Stop loses that\n");
	/* First the flushes: what is drained is to be on media. */
	rem_logs_early(in_force(new));
	if (in_force(old) && !in_force(new))
		rem_drain_all();
}

static int promise_changed(struct notifier_block *nb, unsigned long promise,
			   void *data)
{
	mutex_lock(&change_lock);
	update();
	mutex_unlock(&change_lock);
	return NOTIFY_OK;
}

static struct notifier_block promise_nb = { .notifier_call = promise_changed };

static int ends(struct notifier_block *nb, unsigned long event, void *data)
{
	mutex_lock(&change_lock);
	ending = true;
	update();
	mutex_unlock(&change_lock);
	return NOTIFY_OK;
}

static struct notifier_block reboot_nb = { .notifier_call = ends };

/*
 * An image has the kernel's side of the registry, and the boot that enters it begins
 * with the loader, which takes what is registered for an earlier kernel's. So nothing is,
 * in an image. A log's ring cannot be left as easily: it would be that boot's.
 */
static int hibernates(struct notifier_block *nb, unsigned long event,
		      void *data)
{
	bool begins = event == PM_HIBERNATION_PREPARE;
	int err = 0;

	if (!begins && event != PM_POST_HIBERNATION)
		return NOTIFY_DONE;
	if (begins && rem_redo_is_used()) {
		pr_warn("remanence: no hibernation while a disk has a log in NVRAM: remove its device first\n");
		return notifier_from_errno(-EBUSY);
	}
	mutex_lock(&change_lock);
	hibernating = begins;
	update();
	if (begins && rem_registry_used()) {
		hibernating = false;
		update();
		err = -EIO;
	}
	mutex_unlock(&change_lock);
	return notifier_from_errno(err);
}

static struct notifier_block sleep_nb = { .notifier_call = hibernates };

static void begin(void)
{
	rem_registry_format();
	if (rem_registry_pages())
		rem_drain_start();
}

/* A change is shown when all that it leads to is done. */
static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	ssize_t bytes;

	if (mutex_lock_interruptible(&change_lock))
		return -EINTR;
	if (state == OFF)
		bytes = sysfs_emit(buf, "off: %s\n", off_because);
	else
		bytes = sysfs_emit(buf, "%s\n", state_names[state]);
	mutex_unlock(&change_lock);
	return bytes;
}

static ssize_t state_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	int wants = __sysfs_match_string(state_names, ARRAY_SIZE(state_names),
					 buf);

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (wants < DISK)
		return -EINVAL;
	mutex_lock(&change_lock);
	asked_for = wants;
	update();
	mutex_unlock(&change_lock);
	return count;
}

static struct kobj_attribute state_attr = __ATTR_RW(state);

static ssize_t counts_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf,
			  "in_memory %lld\nby_disk %lld\ndrains %lld\npages %lld\npages_max %u\nfiles_max %u\n",
			  atomic64_read(&rem_counts.in_memory),
			  atomic64_read(&rem_counts.by_disk),
			  atomic64_read(&rem_counts.drains),
			  atomic64_read(&rem_counts.pages),
			  rem_registry_pages(), rem_registry_files());
}

static struct kobj_attribute counts_attr = __ATTR_RO(counts);

/*
 * "written ENTRY": its page is in its file. "clear": all are, or what is left is given
 * up.
 */
static ssize_t found_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	ssize_t err = count;
	u32 entry;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	mutex_lock(&change_lock);
	if (state != FOUND) {
		err = -EINVAL;
	} else if (sysfs_streq(buf, "clear")) {
		begin();
		update();
	} else if (sscanf(buf, "written %u", &entry) != 1 ||
		   !rem_registry_clear(entry)) {
		err = -EINVAL;
	}
	mutex_unlock(&change_lock);
	return err;
}

static ssize_t found_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(state) == FOUND);
}

static struct kobj_attribute found_attr = __ATTR_RW(found);

static ssize_t excluded_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	unsigned long dev;
	void *value;
	int at = 0;

	xa_for_each(&excluded, dev, value)
		at += sysfs_emit_at(buf, at, "%u:%u\n", MAJOR(dev), MINOR(dev));
	return at;
}

/* "+MAJOR:MINOR": that file system uses its disk; "-MAJOR:MINOR": not any more. */
static ssize_t excluded_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *buf, size_t count)
{
	unsigned int major, minor;
	void *old;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (sscanf(buf + 1, "%u:%u", &major, &minor) != 2)
		return -EINVAL;
	mutex_lock(&change_lock);
	if (*buf == '+')
		old = xa_store(&excluded, MKDEV(major, minor), xa_mk_value(1),
			       GFP_KERNEL);
	else if (*buf == '-')
		old = xa_erase(&excluded, MKDEV(major, minor));
	else
		old = XA_ERROR(-EINVAL);
	/* An fsync that has begun ends first. */
	down_write(&state_sem);
	up_write(&state_sem);
	rem_logs_early(in_force(state));
	rem_drain_all();
	mutex_unlock(&change_lock);
	return xa_err(old) ?: count;
}

static struct kobj_attribute excluded_attr = __ATTR_RW(excluded);

static ssize_t registry_read(struct file *file, struct kobject *kobj,
			     struct bin_attribute *attr, char *buf, loff_t at,
			     size_t bytes)
{
	size_t size;
	const void *from = rem_registry_bytes(&size);

	return memory_read_from_buffer(buf, bytes, &at, from, size);
}

static struct bin_attribute registry_attr = {
	.attr = { .name = "registry", .mode = 0400 },
	.read = registry_read,
};

static struct attribute *attrs[] = {
	&state_attr.attr, &counts_attr.attr, &found_attr.attr,
	&excluded_attr.attr, &rem_redo_attr.attr, NULL,
};

static struct bin_attribute *bin_attrs[] = { &registry_attr, NULL };

static const struct attribute_group group = { .attrs = attrs };
static const struct attribute_group bytes_group = { .bin_attrs = bin_attrs };

static void __init open_registry(void)
{
	int err = rem_registry_open();
	size_t bytes;

	if (err == -EBUSY)
		off_because = "a region of persistent memory (pm=) is in its place";
	else if (err && asked)
		off_because = "the boot loader has put no memory aside";
	if (err)
		return;
	opened = true;
	static_branch_enable(&rem_persist_key);
	if (!rem_registry_found())
		begin();
	off_because = "there is no memory for its tables";
	rem_registry_bytes(&bytes);
	registry_attr.size = bytes;
}

static int __init rem_persist_init(void)
{
	struct kobject *kobj =
		kobject_create_and_add("persist", rem_sysfs_dir());
	int err = kobj ? sysfs_create_group(kobj, &group) : -ENOMEM;

	if (err)
		return err;
	open_registry();
	if (!opened)
		return 0;
	err = sysfs_create_group(kobj, &bytes_group) ?:
	      rem_promise_watch(&promise_nb) ?:
	      register_reboot_notifier(&reboot_nb) ?:
	      register_pm_notifier(&sleep_nb);
	mutex_lock(&change_lock);
	update();
	mutex_unlock(&change_lock);
	return err;
}
late_initcall_sync(rem_persist_init);
