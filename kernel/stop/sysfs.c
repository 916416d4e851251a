// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/remanence: the interface for administrators and tools.
 */
#include <linux/capability.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/remanence/rem_reason_name.h>
#include <linux/sysfs.h>
#include "stop.h"

static ssize_t rem_armed_show(char *buf)
{
	if (rem.differs[0])
		return sysfs_emit(buf,
				  "refused: an image would be: %s is not as it was at boot\n",
				  rem.differs);
	if (rem_mode_loses())
		return sysfs_emit(buf, "refused: stop=%s would lose %s\n",
				  rem_mode_name(), rem.loses);
	if (rem_budget_exceeded())
		return sysfs_emit(buf, "refused: a Stop outlasted its bound\n");
	if (!rem_budget_fits())
		return sysfs_emit(buf,
				  "refused: a Stop may outlast the hold-up\n");
	return rem_health_status(buf) ?: sysfs_emit(buf, "armed\n");
}

static ssize_t status_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	switch (READ_ONCE(rem.state)) {
	case REM_ARMED:
		return rem_armed_show(buf);
	case REM_STOPPING:
		return sysfs_emit(buf, "stopping\n");
	case REM_REFUSED:
		return sysfs_emit(buf, "refused: %s\n", rem.why);
	default:
		return sysfs_emit(buf, "off: no loader handed over an NVRAM block\n");
	}
}

static struct kobj_attribute status_attr = __ATTR_RO(status);

static ssize_t last_boot_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	const struct rem_boot_note *note;

	if (!rem.block)
		return sysfs_emit(buf, "unknown\n");
	note = rem_record_note();
	if (note->held)
		return sysfs_emit(buf, "%s %u sequence %u held %s\n",
				  rem_reason_name(note->reason), note->reason,
				  note->sequence, rem_reason_name(note->held));
	return sysfs_emit(buf, "%s %u sequence %u\n",
			  rem_reason_name(note->reason), note->reason,
			  note->sequence);
}

static struct kobj_attribute last_boot_attr = __ATTR_RO(last_boot);

static ssize_t sequence_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%u\n", rem.sequence);
}

static struct kobj_attribute sequence_attr = __ATTR_RO(sequence);

static ssize_t resumes_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%u\n", rem.resumes);
}

static struct kobj_attribute resumes_attr = __ATTR_RO(resumes);

static ssize_t last_error_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", rem.last_error);
}

static struct kobj_attribute last_error_attr = __ATTR_RO(last_error);

static ssize_t low_pages_show(struct kobject *kobj,
			      struct kobj_attribute *attr, char *buf)
{
	return rem_low_pages_show(buf);
}

static struct kobj_attribute low_pages_attr = __ATTR_RO(low_pages);

static ssize_t stop_mode_show(struct kobject *kobj,
			      struct kobj_attribute *attr, char *buf)
{
	if (!rem.blocker[0])
		return sysfs_emit(buf, "%s\n", rem_mode_name());
	return sysfs_emit(buf, "%s: because of %s\n", rem_mode_name(),
			  rem.blocker);
}

/* By a person who does not trust a driver: until the next boot. */
static ssize_t stop_mode_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	if (!capable(CAP_SYS_BOOT))
		return -EPERM;
	if (!sysfs_streq(buf, "dpm"))
		return -EINVAL;
	rem_use_dpm("an administrator");
	return count;
}

static struct kobj_attribute stop_mode_attr = __ATTR_RW(stop_mode);

static ssize_t budget_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf,
			  "bound_ns %llu\nhold_up_ns %llu\nlast_ns %llu\nworst_ns %llu\nexceeded %d\n",
			  rem_budget_bound_ns(), rem_budget_hold_up_ns(),
			  rem_budget_last_ns(), rem_budget_worst_ns(),
			  rem_budget_exceeded());
}

static ssize_t budget_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	if (!capable(CAP_SYS_BOOT))
		return -EPERM;
	if (!sysfs_streq(buf, "acknowledge"))
		return -EINVAL;
	rem_budget_acknowledge();
	return count;
}

static struct kobj_attribute budget_attr = __ATTR_RW(budget);

static ssize_t stop_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	if (!capable(CAP_SYS_BOOT))
		return -EPERM;
	if (!sysfs_streq(buf, "now"))
		return -EINVAL;
	if (!rem_stop_begin(REM_STOP_PLANNED))
		return -EBUSY;
	return count;
}

static struct kobj_attribute stop_attr = __ATTR_WO(stop);

static ssize_t disks_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return rem_disks_show(buf);
}

static ssize_t disks_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	int err = capable(CAP_SYS_ADMIN) ? rem_disks_store(buf) : -EPERM;

	return err ?: count;
}

static struct kobj_attribute disks_attr = __ATTR_RW(disks);

static ssize_t hold_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	return rem_hold_show(buf);
}

static ssize_t hold_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int err = capable(CAP_SYS_BOOT) ? rem_hold_store(buf) : -EPERM;

	return err ?: count;
}

static struct kobj_attribute hold_attr = __ATTR_RW(hold);

static ssize_t nvdimm_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return rem_nvdimm_show(buf);
}

static struct kobj_attribute nvdimm_attr = __ATTR_RO(nvdimm);

static ssize_t trust_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return rem_trust_show(buf);
}

static struct kobj_attribute trust_attr = __ATTR_RO(trust);

/* To be waited for by poll(). */
static ssize_t flush_on_fail_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", rem_promise());
}

static struct kobj_attribute flush_on_fail_attr = __ATTR_RO(flush_on_fail);

static ssize_t health_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return rem_health_show(buf);
}

static ssize_t health_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	int err = capable(CAP_SYS_BOOT) ? rem_health_store(buf) : -EPERM;

	return err ?: count;
}

static struct kobj_attribute health_attr = __ATTR_RW(health);

static struct attribute *rem_attrs[] = {
	&status_attr.attr, &last_boot_attr.attr, &sequence_attr.attr,
	&resumes_attr.attr, &last_error_attr.attr, &low_pages_attr.attr,
	&stop_mode_attr.attr, &stop_attr.attr, &budget_attr.attr,
	&disks_attr.attr, &hold_attr.attr, &nvdimm_attr.attr,
	&trust_attr.attr, &flush_on_fail_attr.attr, &health_attr.attr, NULL,
};

static const struct attribute_group rem_group = { .attrs = rem_attrs };

static struct kobject *rem_kobj;

/** rem_sysfs_promise_changed - wake who waits for that. Context: may sleep. */
void rem_sysfs_promise_changed(void)
{
	if (!rem_kobj)
		return;
	sysfs_notify(rem_kobj, NULL, "flush_on_fail");
	sysfs_notify(rem_kobj, NULL, "status");
}

/** rem_sysfs_health_changed - wake who waits for that. Context: may sleep. */
void rem_sysfs_health_changed(void)
{
	if (!rem_kobj)
		return;
	sysfs_notify(rem_kobj, NULL, "health");
	sysfs_notify(rem_kobj, NULL, "status");
}

/** rem_sysfs_dir - Return: the directory, or NULL */
struct kobject *rem_sysfs_dir(void)
{
	return rem_kobj;
}

/**
 * rem_sysfs_init - create the directory
 *
 * Context: process, once.
 * Return: 0 or a negative errno.
 */
int __init rem_sysfs_init(void)
{
	rem_kobj = kobject_create_and_add("remanence", kernel_kobj);
	if (!rem_kobj)
		return -ENOMEM;
	return sysfs_create_group(rem_kobj, &rem_group);
}
