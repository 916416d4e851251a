/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by kernel/time/timekeeping.c, whose timekeeper it needs.
 *
 * Invariant 7: MONOTONIC does not count the time off, BOOTTIME does, REALTIME
 * is right to the resolution of the real-time clock and never goes backwards.
 *
 * timekeeping_suspend() is not used: it reads the real-time clock, which can
 * take two milliseconds of the energy that is left. Stop keeps one reading of
 * the clock source; the rest is done by Go.
 */

static u64 rem_cycles_at_stop;

/**
 * rem_timekeeping_stop - keep the moment of the EP-cut
 *
 * Context: one CPU, all others parked, interrupts off. Return: nothing.
 */
void rem_timekeeping_stop(void)
{
	rem_cycles_at_stop = tk_clock_read(&tk_core.timekeeper.tkr_mono);
}

/* As timekeeping_forward_now(), up to the EP-cut. */
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

/**
 * rem_timekeeping_go - let clocks go on, and tell those that count the time off
 *
 * Context: one CPU, all others parked, interrupts off. Return: nothing.
 */
void rem_timekeeping_go(void)
{
	struct timekeeper *tk = &tk_core.timekeeper;
	struct timespec64 rtc, stopped;
	unsigned long flags;

	read_persistent_clock64(&rtc);
	clockevents_resume();
	clocksource_resume();

	raw_spin_lock_irqsave(&timekeeper_lock, flags);
	write_seqcount_begin(&tk_core.seq);
	rem_timekeeping_forward(tk);
	stopped = tk_xtime(tk);
	if (timespec64_compare(&rtc, &stopped) > 0) {
		struct timespec64 off = timespec64_sub(rtc, stopped);

		__timekeeping_inject_sleeptime(tk, &off);
	}
	tk->tkr_mono.cycle_last = tk_clock_read(&tk->tkr_mono);
	tk->tkr_raw.cycle_last = tk->tkr_mono.cycle_last;
	tk->ntp_error = 0;
	timekeeping_update(tk, TK_MIRROR | TK_CLOCK_WAS_SET);
	write_seqcount_end(&tk_core.seq);
	raw_spin_unlock_irqrestore(&timekeeper_lock, flags);

	touch_softlockup_watchdog();
	/* The device has forgotten its state, so its driver must, too. */
	tick_suspend_broadcast();
	tick_resume_broadcast();
	timerfd_resume();
}
