/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Time-outs: by ACPI's timer or, if there is none (port 0), by the CPU's counter,
 * which gives at least the requested time.
 */
#ifndef LOADER_WAIT_H
#define LOADER_WAIT_H

#include "../core/base.h"
#include "io.h"

#define WAIT_TIMER_HZ 3579545u
/* The timer has 24 bits: enough for four seconds. */
#define WAIT_TIMER_MASK 0xffffffu

struct wait {
	u16 timer_port;
	u32 begin;
	u64 begin_ticks;
};

static inline struct wait wait_begin(u16 timer_port)
{
	return (struct wait){
		.timer_port = timer_port,
		.begin = timer_port ? in32(timer_port) : 0,
		.begin_ticks = read_ticks(),
	};
}

static inline bool wait_over(const struct wait *wait, u32 limit_ms)
{
	if (wait->timer_port)
		return ((in32(wait->timer_port) - wait->begin) &
			WAIT_TIMER_MASK) > WAIT_TIMER_HZ / 1000u * limit_ms;
	return read_ticks() - wait->begin_ticks > TICKS_PER_MS * limit_ms;
}

#endif /* LOADER_WAIT_H */
