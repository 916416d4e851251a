/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by kernel/time/timekeeping.c: clocks in Stop and Go.
 *
 * Invariant 7: MONOTONIC does not count the time without power, BOOTTIME does,
 * and REALTIME is right to the resolution of the real-time clock and never goes
 * backwards.
 *
 * timekeeping_suspend() is not used, because it reads the real-time clock, which
 * may take two milliseconds. Stop reads the clock source once; Go does the rest.
 */
#include "hooks.h"

static u64 rem_cycles_at_stop;

/*
 * Seconds by which the real-time clock is ahead of CLOCK_BOOTTIME. REALTIME
 * cannot be used instead: users set it. It is measured again from time to time,
 * because users set the real-time clock, too, and both drift. A difference below
 * two seconds is due to the clock's resolution; it is ignored, so that such
 * errors do not add up over many Stops.
 */
static time64_t rem_rtc_ahead_s;

#define REM_RTC_PERIOD_S 60
#define REM_RTC_DIFFERENCE_S 2

static void rem_rtc_measure(struct work_struct *work)
{
	struct timespec64 rtc;
	time64_t ahead_s;

	read_persistent_clock64(&rtc);
	ahead_s = rtc.tv_sec - ktime_get_boottime_seconds();
	if (rtc.tv_sec && abs(ahead_s - rem_rtc_ahead_s) >= REM_RTC_DIFFERENCE_S)
		WRITE_ONCE(rem_rtc_ahead_s, ahead_s);
	if (work)
		schedule_delayed_work(to_delayed_work(work),
				      REM_RTC_PERIOD_S * HZ);
}

static DECLARE_DEFERRABLE_WORK(rem_rtc_work, rem_rtc_measure);

/**
 * rem_timekeeping_prepare - begin to follow the real-time clock
 *
 * Context: process, once.
 */
void rem_timekeeping_prepare(void)
{
	rem_rtc_measure(NULL);
	schedule_delayed_work(&rem_rtc_work, REM_RTC_PERIOD_S * HZ);
}

/**
 * rem_timekeeping_stop - read the clock source for the last time before the cut
 *
 * Context: one CPU, all others parked, interrupts off.
 */
void rem_timekeeping_stop(void)
{
	rem_cycles_at_stop = tk_clock_read(&tk_core.timekeeper.tkr_mono);
}

/* Like timekeeping_forward_now(), but up to rem_timekeeping_stop(). */
static void rem_timekeeping_forward(struct timekeeper *tk)
{
	u64 delta = clocksource_delta(rem_cycles_at_stop,
				      tk->tkr_mono.cycle_last,
				      tk->tkr_mono.mask,
				      tk->tkr_mono.clock->max_raw_delta);

	while (delta) {
		u64 step = min(delta, tk->tkr_mono.clock->max_cycles);

		tk->tkr_mono.xtime_nsec += step * tk->tkr_mono.mult;
		tk->tkr_raw.xtime_nsec += step * tk->tkr_raw.mult;
		tk_normalize_xtime(tk);
		delta -= step;
	}
}

/* How long the machine was off, to the resolution of the real-time clock. */
static struct timespec64 rem_timekeeping_off(struct timekeeper *tk,
					     const struct timespec64 *rtc)
{
	struct timespec64 mono = timespec64_add(tk_xtime(tk),
						tk->wall_to_monotonic);
	s64 boot_ns = timespec64_to_ns(&mono) + ktime_to_ns(tk->offs_boot);
	s64 off_ns = (rtc->tv_sec - rem_rtc_ahead_s) * NSEC_PER_SEC - boot_ns;

	if (!rtc->tv_sec || !rem_rtc_ahead_s || off_ns < 0)
		off_ns = 0;
	return ns_to_timespec64(off_ns);
}

static void rem_timekeeping_rebase(const struct timespec64 *rtc)
{
	struct timekeeper *tk = &tk_core.timekeeper;
	struct timespec64 off;
	unsigned long flags;

	raw_spin_lock_irqsave(&timekeeper_lock, flags);
	write_seqcount_begin(&tk_core.seq);
	rem_timekeeping_forward(tk);
	off = rem_timekeeping_off(tk, rtc);
	__timekeeping_inject_sleeptime(tk, &off);
	tk->tkr_mono.cycle_last = tk_clock_read(&tk->tkr_mono);
	tk->tkr_raw.cycle_last = tk->tkr_mono.cycle_last;
	tk->ntp_error = 0;
	timekeeping_update(tk, TK_MIRROR | TK_CLOCK_WAS_SET);
	/* KVM: guests count with the TSC, whatever the clock source is. */
	raw_notifier_call_chain(&pvclock_gtod_chain, PVCLOCK_GTOD_RESTARTED,
				tk);
	write_seqcount_end(&tk_core.seq);
	raw_spin_unlock_irqrestore(&timekeeper_lock, flags);
}

/**
 * rem_timekeeping_go - continue clocks, and add the time without power
 * @resumed: power was off; otherwise a Stop was refused and no clock has stopped
 *
 * Context: one CPU, all others parked, interrupts off.
 */
void rem_timekeeping_go(bool resumed)
{
	struct timespec64 rtc;

	if (resumed) {
		read_persistent_clock64(&rtc);
		clockevents_resume();
		clocksource_resume();
		rem_timekeeping_rebase(&rtc);
	}
	touch_softlockup_watchdog();
	/* The device has lost its state, so its driver must forget it, too. */
	tick_suspend_broadcast();
	tick_resume_broadcast();
	timerfd_resume();
}
