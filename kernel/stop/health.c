// SPDX-License-Identifier: GPL-2.0-only
/*
 * Health of the supply, and of what else a Stop at a power failure needs, as far as the
 * kernel cannot know it: user space watches it (remctl health) and reports named
 * conditions. While one is bad the machine promises nothing (promise.c), as without
 * charge. Stops are begun nevertheless, a planned one and one at a power failure: an
 * image that may not get finished is better than none.
 *
 * Conditions are memory: after Go they are as they were, and so is what is left of their
 * periods, since CLOCK_MONOTONIC stands still while the machine is off.
 */
#include <linux/jiffies.h>
#include <linux/printk.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>
#include "conditions.h"
#include "stop.h"

/* A name, a text, and how many more. */
#define REM_HEALTH_LINE_BYTES 128

/* Of the conditions and of what follows from them. */
static DEFINE_SPINLOCK(rem_health_lock);
static struct rem_conditions rem_conditions;
static unsigned int rem_health_count; /* of those that are bad */
static unsigned int
	rem_health_logged; /* the same, when the log last had a line */

static void rem_health_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(rem_health_work, rem_health_look);

static const char *rem_health_why(const struct rem_condition *one)
{
	return one->text[0] ? one->text : "nobody has reported it in time";
}

/* Writes the first reason for no promise; returns its length; with the lock. */
static int rem_health_first(char *text, size_t bytes)
{
	const struct rem_condition *first;
	unsigned int count = rem_conditions_bad(&rem_conditions,
						ktime_get_seconds(), &first);

	if (!count)
		return 0;
	if (count == 1)
		return scnprintf(text, bytes, "%s: %s", first->name,
				 rem_health_why(first));
	return scnprintf(text, bytes, "%s: %s, and %u more", first->name,
			 rem_health_why(first), count - 1);
}

/*
 * Counts what is bad, and begins to wait for the next condition that gets silent.
 * Returns whether users see another count; with the lock.
 */
static bool rem_health_look_locked(void)
{
	const struct rem_condition *first;
	u64 now_s = ktime_get_seconds();
	u64 wait_s = rem_conditions_wait_s(&rem_conditions, now_s);
	unsigned int before = rem_health_count;

	WRITE_ONCE(rem_health_count,
		   rem_conditions_bad(&rem_conditions, now_s, &first));
	if (wait_s)
		mod_delayed_work(system_wq, &rem_health_work, wait_s * HZ);
	return rem_health_count != before;
}

static void rem_health_tell(void)
{
	char text[REM_HEALTH_LINE_BYTES];
	bool logged;

	rem_promise_update();
	rem_sysfs_health_changed();
	spin_lock(&rem_health_lock);
	logged = !rem_health_count != !rem_health_logged;
	rem_health_logged = rem_health_count;
	rem_health_first(text, sizeof(text));
	spin_unlock(&rem_health_lock);
	if (logged && rem_health_logged)
		pr_warn("remanence: no promise: %s\n", text);
	else if (logged)
		pr_info("remanence: no condition is bad any more\n");
}

static void rem_health_look(struct work_struct *work)
{
	bool changed;

	spin_lock(&rem_health_lock);
	changed = rem_health_look_locked();
	spin_unlock(&rem_health_lock);
	if (changed)
		rem_health_tell();
}

/**
 * rem_health_good - Return: whether no condition is bad. Context: any.
 */
bool rem_health_good(void)
{
	return !READ_ONCE(rem_health_count);
}

/**
 * rem_health_store - take in a report
 * @line: as for rem_conditions_report()
 *
 * Context: process.
 * Return: 0 or a negative errno.
 */
int rem_health_store(const char *line)
{
	int changed;

	spin_lock(&rem_health_lock);
	changed = rem_conditions_report(&rem_conditions, line,
					ktime_get_seconds());
	if (changed >= 0)
		changed |= rem_health_look_locked();
	spin_unlock(&rem_health_lock);
	if (changed > 0)
		rem_health_tell();
	return min(changed, 0);
}

static const char *rem_health_word(const struct rem_condition *one, u64 now_s)
{
	if (one->text[0])
		return "bad";
	return rem_condition_silent(one, now_s) ? "silent" : "ok";
}

/**
 * rem_health_show - write a line for each condition
 * @buf: a page
 *
 * Context: process.
 * Return: how many bytes.
 */
ssize_t rem_health_show(char *buf)
{
	int bytes = 0;
	unsigned int i;
	u64 now_s;

	spin_lock(&rem_health_lock);
	now_s = ktime_get_seconds();
	for (i = 0; i < rem_conditions.count; i++) {
		const struct rem_condition *one = &rem_conditions.list[i];

		bytes += sysfs_emit_at(buf, bytes, "%s %s %llu %llu%s%s\n",
				       one->name, rem_health_word(one, now_s),
				       now_s - one->since_s, one->period_s,
				       one->text[0] ? " " : "", one->text);
	}
	spin_unlock(&rem_health_lock);
	return bytes;
}

/**
 * rem_health_status - write the first reason for no promise, as a status
 * @buf: a page
 *
 * Context: process.
 * Return: how many bytes; 0: there is none.
 */
ssize_t rem_health_status(char *buf)
{
	char text[REM_HEALTH_LINE_BYTES];
	int chars;

	spin_lock(&rem_health_lock);
	chars = rem_health_first(text, sizeof(text));
	spin_unlock(&rem_health_lock);
	return chars ? sysfs_emit(buf, "unhealthy: %s\n", text) : 0;
}
