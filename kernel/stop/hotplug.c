// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU that goes online or offline runs code that no stopper can interrupt. No
 * Stop begins meanwhile; if PWR_OK drops, the Stop begins after the step. Nobody knows
 * how long a step lasts, so the promise to save caches is taken back before it.
 */
#include <linux/atomic.h>
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include "stop.h"

static atomic_t rem_hotplug_steps = ATOMIC_INIT(0);

static int rem_hotplug_enter(unsigned int cpu)
{
	/* It commits, and continues first. */
	if (!cpu)
		return -EBUSY;
	rem_promise_suspend();
	atomic_inc(&rem_hotplug_steps);
	return 0;
}

static int rem_hotplug_leave(unsigned int cpu)
{
	if (atomic_dec_and_test(&rem_hotplug_steps) && !rem_power_ok())
		rem_stop_begin(REM_STOP_POWER);
	/* The bound depends on the number of CPUs. */
	rem_promise_resume();
	return 0;
}

/* On the new CPU, which was not prepared if it was offline when armed. */
static int rem_hotplug_online(unsigned int cpu)
{
	rem_context_prepare();
	rem_go_prepare_cpu();
	return rem_hotplug_leave(cpu);
}

/** rem_hotplug_busy - Return: whether a CPU goes on- or offline. Context: any. */
bool rem_hotplug_busy(void)
{
	return atomic_read(&rem_hotplug_steps);
}

/**
 * rem_hotplug_init - register for CPU hotplug
 *
 * Context: process, once.
 * Return: 0 or a negative errno.
 */
int __init rem_hotplug_init(void)
{
	int err = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN,
					    "remanence:prepare",
					    rem_hotplug_enter,
					    rem_hotplug_leave);

	if (err >= 0)
		err = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
						"remanence:online",
						rem_hotplug_online,
						rem_hotplug_enter);
	return err < 0 ? err : 0;
}
