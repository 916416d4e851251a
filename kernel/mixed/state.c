// SPDX-License-Identifier: GPL-2.0-only
/*
 * memtype=mixed: the thread that moves pages, and what administrators see and choose:
 * /sys/kernel/remanence/dram.
 *
 *   off      no DRAM is used, and why
 *   on       hot pages move up, cold ones down
 *   empty    an administrator wants it: all go home
 */
#include <linux/capability.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>
#include <linux/wait.h>
#include <asm/memory_kinds.h>

#include "../machine.h"
#include "mixed.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

DEFINE_STATIC_KEY_FALSE(rem_mixed_key);

static unsigned int scan_ms = 1000;
module_param_named(dram_scan_ms, scan_ms, uint, 0644);
MODULE_PARM_DESC(dram_scan_ms, "time between two looks at what is hot");

/* Cleaning begins above it, so that programs that write find room. */
#define DIRTY_LOW(max) ((max) / 2)

static bool empty;
/* While the machine hibernates: its image has no device memory. */
static bool held;
/* Held by a scan. */
static DEFINE_MUTEX(scan_lock);
static const char *off_because = "memtype=mixed was not given";
static bool is_on;
/* The thread waits for its next scan, or until frames are needed. */
static DECLARE_WAIT_QUEUE_HEAD(wait);
static bool is_woken, is_tired;
static struct rem_move room; /* for its moves */

/* As a scan: nothing comes while all go home, or the machine hibernates. */
static void allow_new(void)
{
	rem_new_allow(!READ_ONCE(empty) && !READ_ONCE(held));
}

static void clean_some(void)
{
	unsigned int max = rem_frames_dirty_max(), low = DIRTY_LOW(max), cursor = 0;
	struct page *frame;

	/* No store is refused. */
	if (max == rem_frames_count())
		return;

	while (rem_frames_dirty_count() > low) {
		frame = rem_frame_next_dirty(&cursor);
		if (!frame)
			break;
		rem_frame_clean(frame, REM_DRAM_BOUND);
		put_page(frame);
		cond_resched();
	}
}

/**
 * rem_mixed_wake - frames are needed before the next scan
 *
 * Once what could leave DRAM was not enough, nothing more is tried until then.
 */
void rem_mixed_wake(void)
{
	if (READ_ONCE(is_woken) || READ_ONCE(is_tired))
		return;
	WRITE_ONCE(is_woken, true);
	wake_up(&wait);
}

static int run(void *data)
{
	unsigned long next = jiffies;

	for (;;) {
		bool is_due = time_after_eq(jiffies, next);

		mutex_lock(&scan_lock);
		if (!held && is_due) {
			rem_heat_scan(&room, READ_ONCE(empty),
				      READ_ONCE(scan_ms) * USEC_PER_MSEC);
			clean_some();
		}
		if (!held)
			WRITE_ONCE(is_tired, !rem_policy_make_room());
		mutex_unlock(&scan_lock);
		if (is_due)
			next = jiffies + msecs_to_jiffies(max(READ_ONCE(scan_ms), 1u));
		WRITE_ONCE(is_woken, false);
		wait_event_idle_timeout(wait, READ_ONCE(is_woken),
					max_t(long, next - jiffies, 1));
	}
	return 0;
}

static int sleeps(struct notifier_block *nb, unsigned long event, void *data)
{
	int err = 0;

	if (event != PM_HIBERNATION_PREPARE && event != PM_POST_HIBERNATION)
		return NOTIFY_OK;
	mutex_lock(&scan_lock);
	held = event == PM_HIBERNATION_PREPARE;
	allow_new();
	if (held && rem_frames_used()) {
		pr_warn("remanence: DRAM has pages that hibernation would lose: write `empty' to dram/state first\n");
		held = false;
		allow_new();
		err = -EBUSY;
	}
	mutex_unlock(&scan_lock);
	return notifier_from_errno(err);
}

static struct notifier_block sleeps_nb = { .notifier_call = sleeps };

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	if (!is_on)
		return sysfs_emit(buf, "off: %s\n", off_because);
	return sysfs_emit(buf, "%s\n", READ_ONCE(empty) ? "empty" : "on");
}

static ssize_t state_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *text, size_t bytes)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (!is_on)
		return -ENODEV;
	if (sysfs_streq(text, "empty"))
		WRITE_ONCE(empty, true);
	else if (sysfs_streq(text, "on"))
		WRITE_ONCE(empty, false);
	else
		return -EINVAL;
	allow_new();
	return bytes;
}

static ssize_t policy_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return rem_policy_show(buf);
}

static ssize_t policy_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *text, size_t bytes)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (!is_on)
		return -ENODEV;
	return rem_policy_set(text, READ_ONCE(scan_ms) * USEC_PER_MSEC) ?: bytes;
}

static ssize_t levels_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return is_on ? rem_levels_show(buf) : 0;
}

static ssize_t files_show(struct rem_mixed_counts *counts, char *buf,
			  ssize_t at)
{
	u64 nvram, dram = rem_files_reads(&nvram);
	atomic64_t *ended = counts->file_ended;

	return sysfs_emit_at(buf, at,
			     "file_used %u\nfile_copied %llu\nfile_mapped %llu\nfile_changed %llu\n"
			     "file_left %llu\nfile_moved %llu\nfile_cooled %llu\n"
			     "file_reads_dram %llu\nfile_reads_nvram %llu\n"
			     "text_used %u\ntext_copied %llu\n",
			     rem_frames_lent() - rem_text_used(),
			     (u64)atomic64_read(&counts->file_copied),
			     (u64)atomic64_read(&counts->file_mapped),
			     (u64)(atomic64_read(&ended[REM_MIXED_WRITES]) +
				   atomic64_read(&ended[REM_MIXED_CHANGES])),
			     (u64)atomic64_read(&ended[REM_MIXED_LEAVES]),
			     (u64)atomic64_read(&ended[REM_MIXED_MOVES]),
			     (u64)atomic64_read(&counts->file_cooled), dram,
			     nvram, rem_text_used(),
			     (u64)atomic64_read(&counts->text_copied));
}

static ssize_t counts_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	struct rem_mixed_counts *counts = &rem_mixed_counts;
	ssize_t bytes;

	bytes = sysfs_emit(buf,
			   "frames %u\nused %u\ndirty %u\ndirty_max %u\nlevel %u\nreserve %u\n"
			   "promoted %llu\nbegan %llu\ndemoted %llu\nsorted %llu\ncopied %llu\ncleaned %llu\n"
			   "written %llu\nover %llu\nlimited %llu\nscanned %llu\nscans %llu\n"
			   "marked %llu\nmark_faults %llu\n"
			   "bound_ns %llu\n",
			   rem_frames_count(), rem_frames_used(),
			   rem_frames_dirty_count(), rem_frames_dirty_max(),
			   rem_heat_level(), rem_heat_reserve(),
			   (u64)atomic64_read(&counts->promoted),
			   (u64)atomic64_read(&counts->began),
			   (u64)atomic64_read(&counts->demoted),
			   (u64)atomic64_read(&counts->sorted),
			   (u64)atomic64_read(&counts->copied),
			   (u64)atomic64_read(&counts->cleaned),
			   (u64)atomic64_read(&counts->written),
			   (u64)atomic64_read(&counts->over),
			   (u64)atomic64_read(&counts->limited),
			   (u64)atomic64_read(&counts->scanned),
			   (u64)atomic64_read(&counts->scans),
			   (u64)atomic64_read(&counts->marked),
			   (u64)atomic64_read(&counts->mark_faults),
			   rem_mixed_bound_ns());
	return bytes + files_show(counts, buf, bytes);
}

static struct kobj_attribute state_attr = __ATTR_RW(state);
static struct kobj_attribute counts_attr = __ATTR_RO(counts);
static struct kobj_attribute policy_attr = __ATTR_RW(policy);
static struct kobj_attribute levels_attr = __ATTR_RO(levels);

static struct attribute *attrs[] = {
	&state_attr.attr,
	&counts_attr.attr,
	&policy_attr.attr,
	&levels_attr.attr,
	NULL,
};

static const struct attribute_group group = { .name = "dram", .attrs = attrs };

static int __init begin(void)
{
	struct task_struct *thread;
	int err;

	room.src = kcalloc(REM_MOVE_MAX, sizeof(*room.src), GFP_KERNEL);
	room.dst = kcalloc(REM_MOVE_MAX, sizeof(*room.dst), GFP_KERNEL);
	if (!room.src || !room.dst)
		return -ENOMEM;
	err = rem_heat_open() ?: rem_process_open() ?: rem_files_open() ?: rem_map_open() ?:
	      rem_text_open() ?: rem_groups_open();
	if (err)
		return err;
	err = register_pm_notifier(&sleeps_nb);
	if (err)
		return err;
	static_branch_enable(&rem_mixed_key);
	rem_files_begin();
	rem_map_begin_all();
	rem_new_begin();
	thread = kthread_run(run, NULL, "rem_dram");
	return PTR_ERR_OR_ZERO(thread);
}

static int __init open_frames(void)
{
	unsigned int index = 0;
	u64 start, end;
	int err;

	if (!memory_kinds_dram(&index, &start, &end))
		return -ENODEV;
	off_because = "no Stop would save it";
	if (READ_ONCE(rem.state) != REM_ARMED)
		return -EOPNOTSUPP;
	off_because = "remanence.dram_levels or dram_max_kib is wrong";
	err = rem_frames_open();
	if (err == -EINVAL)
		return err;
	off_because = "there is no memory for its tables, or none of it";
	err = err ?: begin();
	/* The bound of a Stop has grown. */
	rem_promise_update();
	return err;
}

/* After Stop, which then is armed, and knows what its supply has left over. */
static int __init rem_mixed_init(void)
{
	struct kobject *dir = rem_sysfs_dir();
	int err = open_frames();

	is_on = !err;
	if (!err)
		pr_info("remanence: %u KiB of DRAM, %u of %u pages may differ from NVRAM\n",
			rem_frames_count() << (PAGE_SHIFT - 10),
			rem_frames_dirty_max(), rem_frames_count());
	else if (err != -ENODEV)
		pr_err("remanence: DRAM is not used: %s: %pe\n", off_because,
		       ERR_PTR(err));
	return dir ? sysfs_create_group(dir, &group) : 0;
}
late_initcall_sync(rem_mixed_init);
