// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clocks. The time register starts again with the power; timekeeping and the
 * scheduler's clock continue from what they had. The time of day comes from the
 * real-time clock, read directly: its driver may sleep.
 */
#include <linux/init.h>
#include <linux/io.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/time64.h>
#include <linux/timekeeping.h>
#include "../machine.h"
#include "../resume/resume.h"
#include "../../time/timekeeping.h"

/* Registers of the Goldfish real-time clock: reading the low word latches the high one. */
#define REM_RTC_TIME_LOW 0x00
#define REM_RTC_TIME_HIGH 0x04

static void __iomem *rem_rtc;

static int __init rem_rtc_map(void)
{
	struct device_node *node;

	node = of_find_compatible_node(NULL, NULL, "google,goldfish-rtc");
	if (node)
		rem_rtc = of_iomap(node, 0);
	of_node_put(node);
	return 0;
}
arch_initcall(rem_rtc_map);

/**
 * read_persistent_clock64 - the time of day
 * @ts: set to it; 0: there is no clock, or it is not mapped yet
 *
 * Context: any.
 */
void read_persistent_clock64(struct timespec64 *ts)
{
	u64 ns;

	*ts = (struct timespec64){};
	if (!rem_rtc)
		return;
	ns = readl(rem_rtc + REM_RTC_TIME_LOW);
	ns |= (u64)readl(rem_rtc + REM_RTC_TIME_HIGH) << 32;
	*ts = ns_to_timespec64(ns);
}

/** rem_sched_clock_stop - Context: Stop, one hart, all others parked. */
void rem_sched_clock_stop(void)
{
	sched_clock_suspend();
}

/** rem_sched_clock_go - Context: Go, one hart, all others parked. */
void rem_sched_clock_go(void)
{
	sched_clock_resume();
}

/** rem_clock_answer - Context: Go, a hart that waits for the end of it. */
void rem_clock_answer(unsigned int cpu)
{
}

/** rem_clock_lost - Return: false: harts have views of one counter. Context: Go. */
bool rem_clock_lost(unsigned int cpu)
{
	return false;
}
