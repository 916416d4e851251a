// SPDX-License-Identifier: GPL-2.0-only
/*
 * The part of Go that waits for drivers has a thread of its own, so that nothing else
 * waits for them: while it runs, the machine is armed. If the power fails meanwhile,
 * the next Go finds the thread in the middle of a restart. What it waits for is lost,
 * so each restart sees to it that it ends, and the thread begins again.
 */
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/swait.h>
#include "../machine.h"
#include "resume.h"

static DECLARE_SWAIT_QUEUE_HEAD(rem_restart_wait);
static bool rem_restart_asked;

static int rem_restart_thread(void *unused)
{
	for (;;) {
		swait_event_idle_exclusive(rem_restart_wait,
					   READ_ONCE(rem_restart_asked));
		WRITE_ONCE(rem_restart_asked, false);
		rem_platform_finish();
		rem_serial_finish();
		rem_alarms_finish();
		rem_devices_finish();
	}
	return 0;
}

/**
 * rem_restart_prepare - create the thread
 *
 * Context: process, once.
 * Return: 0 or a negative errno.
 */
int __init rem_restart_prepare(void)
{
	struct task_struct *thread =
		kthread_run(rem_restart_thread, NULL, "rem_restart");

	if (IS_ERR(thread))
		return PTR_ERR(thread);
	sched_set_fifo(thread);
	return 0;
}

/** rem_restart_begin - restart what was stopped, also once more. Context: any. */
void rem_restart_begin(void)
{
	WRITE_ONCE(rem_restart_asked, true);
	swake_up_one(&rem_restart_wait);
}
