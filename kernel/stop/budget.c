// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 5: the machine knows how long its Stop takes at most, and how long
 * its supply lasts.
 *
 * The bound is a sum over the steps of the bounded path, each at its worst by
 * the reference machine's model (one instruction is one nanosecond, model
 * flat-1ns), with room to spare, plus the longest section with preemption off,
 * which is a property of the configuration and is given by who has measured it
 * (`rem bench stop-go`), plus the flush of caches that are all dirty, which is a
 * property of the processor and is given likewise.
 */
#include <linux/cpumask.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/time64.h>
#include <asm/tsc.h>
#include "../resume/resume.h"
#include "stop.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

/* Worst seen on the reference machine, doubled. */
#define REM_STEP_FIXED_NS 40000
#define REM_STEP_CPU_NS 8000
#define REM_STEP_DEVICE_NS 1500
#define REM_STEP_ENTRY_NS 400

static unsigned int rem_hold_up_us;
module_param_named(hold_up_us, rem_hold_up_us, uint, 0444);
MODULE_PARM_DESC(hold_up_us, "what the supply promises after PWR_OK drops; 0: not known");

static unsigned int rem_preempt_off_us = 2000;
module_param_named(preempt_off_us, rem_preempt_off_us, uint, 0444);
MODULE_PARM_DESC(preempt_off_us, "longest section with preemption off, measured, times its factor");

static unsigned int rem_flush_us;
module_param_named(flush_us, rem_flush_us, uint, 0444);
MODULE_PARM_DESC(flush_us, "what writing back all caches takes when every line is dirty; 0: they are not volatile");

static u64 rem_stop_worst_ns;
static u64 rem_stop_last_ns;
static bool rem_exceeded;

/** rem_budget_hold_up_ns - Return: the supply's promise, 0 = not known. */
u64 rem_budget_hold_up_ns(void)
{
	return (u64)rem_hold_up_us * NSEC_PER_USEC;
}

/** rem_budget_bound_ns - Return: what a Stop takes at most. Context: any. */
u64 rem_budget_bound_ns(void)
{
	return (u64)rem_preempt_off_us * NSEC_PER_USEC +
	       (u64)rem_flush_us * NSEC_PER_USEC + REM_STEP_FIXED_NS +
	       (u64)num_online_cpus() * REM_STEP_CPU_NS +
	       (u64)rem_devices_count() * REM_STEP_DEVICE_NS +
	       (u64)rem_record_entries() * REM_STEP_ENTRY_NS;
}

/** rem_budget_last_ns - Return: what the last Stop took, 0 = none yet. */
u64 rem_budget_last_ns(void)
{
	return rem_stop_last_ns;
}

/** rem_budget_worst_ns - Return: what the longest Stop since boot took. */
u64 rem_budget_worst_ns(void)
{
	return rem_stop_worst_ns;
}

/** rem_budget_fits - Return: whether a Stop may be promised. */
bool rem_budget_fits(void)
{
	if (rem.stop_mode != REM_MODE_FAST || !rem_hold_up_us)
		return true;
	return !rem_exceeded && rem_budget_bound_ns() <= rem_budget_hold_up_ns();
}

/** rem_budget_exceeded - Return: whether a Stop took longer than its bound. */
bool rem_budget_exceeded(void)
{
	return rem_exceeded;
}

/** rem_budget_acknowledge - people have seen it. Context: process. */
void rem_budget_acknowledge(void)
{
	rem_exceeded = false;
}

/**
 * rem_budget_account - after Go: how long did the Stop take
 * @begin_tsc: at the power interrupt
 * @end_tsc: just before the commit
 *
 * Only a machine that has been told its hold-up is disarmed by an excess.
 *
 * Context: any, after Go. Return: nothing.
 */
void rem_budget_account(u64 begin_tsc, u64 end_tsc)
{
	rem_stop_last_ns = mul_u64_u32_div(end_tsc - begin_tsc, NSEC_PER_MSEC,
					   max(tsc_khz, 1u));
	rem_stop_worst_ns = max(rem_stop_worst_ns, rem_stop_last_ns);
	if (rem.stop_mode == REM_MODE_FAST && rem_hold_up_us &&
	    rem_stop_last_ns > rem_budget_bound_ns())
		rem_exceeded = true;
}
