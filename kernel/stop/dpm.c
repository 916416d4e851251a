// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stop and Go by generic device power management: tasks frozen, each driver's
 * freeze callbacks, other CPUs unplugged, system core suspended. It works with
 * any driver that can hibernate, takes as long as it takes, and is what the
 * fast path is compared with.
 */
#include <linux/acpi.h>
#include <linux/console.h>
#include <linux/cpu.h>
#include <linux/freezer.h>
#include <linux/pm.h>
#include <linux/suspend.h>
#include <linux/syscore_ops.h>
#include <asm/x86_init.h>
#include "../resume/resume.h"
#include "stop.h"

/*
 * Context: boot CPU alone, interrupts off, system core suspended.
 * Return: 0 after Go; a negative errno where nothing was committed.
 *
 * Control reappears here after Go.
 */
static int rem_dpm_cut(void)
{
	struct rem_context *ctx = &rem_contexts[0];
	int err;

	x86_platform.save_sched_clock_state();
	rem_context_save(ctx);
	rem_event(REM_EVENT_STOP_CPU_SAVED, 0);
	err = rem_save_and_call(ctx, rem_record_commit, NULL);
	if (err)
		return err;

	rem_cpu_restore(ctx);
	tsc_verify_tsc_adjust(true);
	x86_platform.restore_sched_clock_state();
	rem_went();
	rem_trampoline_restore();
	/* The power management timer and SCI belong to firmware until then. */
	acpi_enable();
	return 0;
}

static int rem_dpm_core(void)
{
	int err = suspend_disable_secondary_cpus();

	if (!err) {
		rem_event(REM_EVENT_STOP_PARKED, 0);
		local_irq_disable();
		system_state = SYSTEM_SUSPEND;
		err = syscore_suspend();
		if (!err) {
			rem_event(REM_EVENT_STOP_SYSCORE, 0);
			err = rem_dpm_cut();
			syscore_resume();
			if (!err) {
				rem_power_go(true);
				rem_event(REM_EVENT_GO_SYSCORE, 0);
			}
		}
		system_state = SYSTEM_RUNNING;
		local_irq_enable();
	}
	suspend_enable_secondary_cpus();
	if (!err)
		rem_event(REM_EVENT_GO_CPUS, num_online_cpus());
	return err;
}

static int rem_dpm_devices(void)
{
	pm_message_t msg;
	int err;

	suspend_console();
	err = dpm_suspend_start(PMSG_FREEZE);
	if (!err) {
		err = dpm_suspend_end(PMSG_FREEZE);
		if (!err) {
			rem_event(REM_EVENT_STOP_DEVICES, 0);
			err = rem_dpm_core();
			msg = err ? PMSG_RECOVER : PMSG_RESTORE;
			dpm_resume_start(msg);
		}
	}
	msg = err ? PMSG_RECOVER : PMSG_RESTORE;
	dpm_resume_end(msg);
	resume_console();
	if (!err)
		rem_event(REM_EVENT_GO_DEVICES, 0);
	return err;
}

/**
 * rem_stop_dpm - stop the machine; come back after Go
 *
 * Context: a kernel thread that is not frozen, may sleep.
 * Return: 0 after Go, a negative errno where nothing was committed.
 */
int rem_stop_dpm(void)
{
	unsigned int sleep_flags = lock_system_sleep();
	int err;

	err = freeze_processes();
	if (!err) {
		err = freeze_kernel_threads();
		rem_event(REM_EVENT_STOP_FREEZE, 0);
		if (!err)
			err = rem_dpm_devices();
		if (!err) {
			rem_entropy_reseed();
			rem_event(REM_EVENT_GO_ENTROPY, 0);
		}
		thaw_processes();
	}
	unlock_system_sleep(sleep_flags);
	return err;
}
