// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stop and Go by generic device power management: it freezes tasks and calls
 * each driver's freeze callbacks. It works with every driver that can hibernate
 * and has no bound. What follows is
 *
 * stop=dpm: unplugs the other CPUs and suspends the system core
 * stop=sng: Stop-and-Go as LightPC (ISCA 2022, section IV) has it. The freezer
 *	is its Drive-to-Idle: a fake signal takes tasks out of user mode and of
 *	waits, up to where nothing schedules them. Drivers suspend in the order
 *	of dpm_list. In Auto-Stop no CPU is unplugged: each saves its registers
 *	for the boot loader (LightPC's BCB is struct rem_context) and writes back
 *	its own caches, and the boot CPU commits.
 */
#include <linux/console.h>
#include <linux/cpu.h>
#include <linux/freezer.h>
#include <linux/pm.h>
#include <linux/suspend.h>
#include <linux/syscore_ops.h>
#include "../../rcu/rcu.h"
#include "stop.h"

/* The other CPUs are offline and wrote back their caches when they went. */
static int rem_dpm_commit(void *unused)
{
	rem_mixed_stop_begin();
	rem_mixed_stop();
	rem_quiet_begin();
	rem_caches_write_back();
	rem_mixed_stopped();
	return rem_record_commit();
}

/*
 * Context: boot CPU alone, interrupts off, system core suspended.
 * Return: 0 after Go; a negative errno if nothing was committed.
 */
static int rem_dpm_cut(void)
{
	struct rem_context *ctx = &rem_contexts[0];
	int err;

	if (rem_cpu_refused())
		return -EOPNOTSUPP;
	rem_core_save();
	rem_platform_save();
	rem_context_save(ctx);
	rem_event(REM_EVENT_STOP_CPU_SAVED, 0);
	err = rem_save_and_call(ctx, rem_dpm_commit, NULL);
	rem_quiet_end(ctx);
	if (!err)
		rem_go_dpm();
	return err;
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
				rem_nvdimm_go();
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

/* Auto-Stop. The CPUs go the way of the bounded Stop. */
static int rem_sng_core(void)
{
	rem_stop_fast();
	rem_thread_sleep();
	return rem_fast_error();
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
			err = rem.running_mode == REM_MODE_SNG ?
				      rem_sng_core() :
				      rem_dpm_core();
			msg = err ? PMSG_RECOVER : PMSG_RESTORE;
			dpm_resume_start(msg);
			if (!err)
				rem_power_go(true);
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
 * rem_stop_dpm - stop the machine; return after Go
 *
 * Context: a kernel thread that is not frozen, may sleep.
 * Return: 0 after Go, a negative errno if nothing was committed.
 */
int rem_stop_dpm(void)
{
	unsigned int sleep_flags;
	int err;

	/* A driver may have been bound since the machine was looked through. */
	err = rem_lost_check(NULL);
	if (err)
		return err;
	sleep_flags = lock_system_sleep();
	/* As for the kernel's own suspend: drivers wait for grace periods. */
	rcu_async_hurry();
	rcu_expedite_gp();
	err = freeze_processes();
	if (!err) {
		err = freeze_kernel_threads();
		rem_event(REM_EVENT_STOP_FREEZE, 0);
		if (!err) {
			err = rem_dpm_devices();
			/* Drivers have allocated interrupts again. */
			rem_devices_changed();
		}
		/* The bounded path has done it, before any CPU left. */
		if (!err && rem.running_mode == REM_MODE_DPM) {
			rem_entropy_reseed();
			rem_event(REM_EVENT_GO_ENTROPY, 0);
		}
		thaw_processes();
	}
	rcu_unexpedite_gp();
	rcu_async_relax();
	unlock_system_sleep(sleep_flags);
	return err;
}
