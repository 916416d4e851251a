// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 5: the machine knows how long its Stop takes at most, and how long
 * its supply lasts.
 *
 * The bound is a sum over the steps of the fast path, each at the worst value
 * measured on the reference machine (one instruction takes one nanosecond) with
 * a margin, plus two parameters: the longest section with preemption off, which
 * depends on the configuration (`rem bench stop-go` measures it), and the flush
 * of caches that are all dirty, which depends on the processor. A Stop that goes through
 * memory line by line fits no supply unless the latter is given. Where images are
 * authenticated it has the time for that (trust.c), and with memtype=mixed the copying
 * of pages from DRAM (mixed/frames.c).
 */
#include <linux/cpumask.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/time64.h>
#include "stop.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

/* The worst values measured on the reference machine, doubled. */
#define REM_STEP_FIXED_NS 40000
#define REM_STEP_CPU_NS 8000
#define REM_STEP_DEVICE_NS 1500
#define REM_STEP_ENTRY_NS 400
/* An uncached read of a device behind a bus; a margin, as this is no figure of QEMU's. */
#define REM_STEP_REGISTER_NS 200

static unsigned int rem_hold_up_us;
module_param_named(hold_up_us, rem_hold_up_us, uint, 0444);
MODULE_PARM_DESC(hold_up_us, "hold-up time of the supply after PWR_OK drops; 0: unknown");

static unsigned int rem_preempt_off_us = 2000;
module_param_named(preempt_off_us, rem_preempt_off_us, uint, 0444);
MODULE_PARM_DESC(preempt_off_us, "longest section with preemption off, with a margin");

static unsigned int rem_flush_us;
module_param_named(flush_us, rem_flush_us, uint, 0444);
MODULE_PARM_DESC(flush_us, "time to write back caches with every line dirty; 0: they are not volatile");

static u64 rem_stop_worst_ns;
static u64 rem_stop_last_ns;
static bool rem_exceeded;

/** rem_budget_hold_up_ns - Return: hold-up time of the supply; 0: unknown. */
u64 rem_budget_hold_up_ns(void)
{
	return (u64)rem_hold_up_us * NSEC_PER_USEC;
}

/* Line by line, the CPUs that are left have the shares of the others, too. */
static u64 rem_budget_flush_ns(void)
{
	u64 flush_ns = (u64)rem_flush_us * NSEC_PER_USEC;

	if (!rem_caches_by_lines())
		return flush_ns;
	return flush_ns * DIV_ROUND_UP(num_possible_cpus(), num_online_cpus());
}

/** rem_budget_bound_ns - Return: how long a Stop takes at most. Context: any. */
u64 rem_budget_bound_ns(void)
{
	return (u64)rem_preempt_off_us * NSEC_PER_USEC +
	       rem_budget_flush_ns() + REM_STEP_FIXED_NS +
	       (u64)rem_interrupts_registers() * REM_STEP_REGISTER_NS +
	       (u64)num_online_cpus() * REM_STEP_CPU_NS +
	       (u64)rem_devices_count() * REM_STEP_DEVICE_NS +
	       (u64)rem_record_entries() * REM_STEP_ENTRY_NS +
	       rem_trust_bound_ns() + rem_mixed_bound_ns();
}

/** rem_budget_last_ns - Return: how long the last Stop took; 0: none yet. */
u64 rem_budget_last_ns(void)
{
	return rem_stop_last_ns;
}

/** rem_budget_worst_ns - Return: duration of the longest Stop since boot. */
u64 rem_budget_worst_ns(void)
{
	return rem_stop_worst_ns;
}

/**
 * rem_budget_is_unknown - Return: whether the bound leaves out the write-back of caches
 *
 * A Stop that goes through memory takes the longer the larger it is.
 *
 * Context: any.
 */
bool rem_budget_is_unknown(void)
{
	return rem_caches_by_lines() && !rem_flush_us;
}

/** rem_budget_fits - Return: whether a Stop ends before the supply does. */
bool rem_budget_fits(void)
{
	if (rem.stop_mode != REM_MODE_FAST || !rem_hold_up_us)
		return true;
	return !rem_exceeded && !rem_budget_is_unknown() &&
	       rem_budget_bound_ns() <= rem_budget_hold_up_ns();
}

/** rem_budget_exceeded - Return: whether a Stop took longer than its bound. */
bool rem_budget_exceeded(void)
{
	return rem_exceeded;
}

/** rem_budget_acknowledge - the administrator has seen it. Context: process. */
void rem_budget_acknowledge(void)
{
	rem_exceeded = false;
	rem_promise_update();
}

/**
 * rem_budget_account - after Go: account how long the Stop took
 * @begin_tsc: at the power interrupt
 * @end_tsc: just before the commit
 *
 * A Stop beyond its bound disarms the machine if its hold-up time is known.
 *
 * Context: any, after Go.
 */
void rem_budget_account(u64 begin_tsc, u64 end_tsc)
{
	rem_stop_last_ns = mul_u64_u32_div(end_tsc - begin_tsc, NSEC_PER_MSEC,
					   rem_ticks_khz());
	rem_stop_worst_ns = max(rem_stop_worst_ns, rem_stop_last_ns);
	if (rem.running_mode == REM_MODE_FAST && rem_hold_up_us &&
	    rem_stop_last_ns > rem_budget_bound_ns()) {
		rem_exceeded = true;
		rem_promise_update();
	}
}
