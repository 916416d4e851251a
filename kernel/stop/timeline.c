// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timeline of each Stop and Go, written into the record block. `rem inspect`
 * prints it; no decision depends on it.
 */
#include <linux/atomic.h>
#include <linux/crc32.h>
#include <linux/smp.h>
#include "stop.h"

static atomic_t rem_event_next = ATOMIC_INIT(REM_EVENTS_MAX);
static u32 rem_event_limit;
static u32 rem_event_sequence;

/** rem_timeline_begin_stop - Context: one CPU, before any event of this Stop. */
void rem_timeline_begin_stop(void)
{
	rem_event_sequence = rem.sequence;
	rem_event_limit = REM_EVENTS_LOADER;
	atomic_set(&rem_event_next, REM_EVENTS_STOP);
}

/**
 * rem_timeline_begin_go - events from now on are those of a Go
 * @sequence: of its image
 *
 * Context: one CPU, before any event of this Go.
 */
void rem_timeline_begin_go(u32 sequence)
{
	rem_event_sequence = sequence;
	rem_event_limit = REM_EVENTS_MAX;
	atomic_set(&rem_event_next, REM_EVENTS_GO);
}

static struct rem_event *rem_event_area(void)
{
	return (void *)rem.block + REM_TIMELINE_OFFSET +
	       (rem_event_sequence & 1) * REM_TIMELINE_STRIDE_BYTES;
}

/** rem_timeline_flush - flush all events so far. Context: Stop or Go, one CPU. */
void rem_timeline_flush(void)
{
	u32 count = min_t(u32, atomic_read(&rem_event_next), rem_event_limit);

	rem_flush(rem_event_area(), count * sizeof(struct rem_event));
	rem_flush(&rem_event_next, sizeof(rem_event_next));
}

/**
 * rem_event - record an event of this moment and CPU
 * @type: of the event
 * @value: its meaning depends on the type
 *
 * If the area is full, the event is dropped. Context: any. Return: nothing.
 */
void rem_event(enum rem_event_type type, u64 value)
{
	struct rem_event event = {
		.sequence = rem_event_sequence,
		.type = type,
		.cpu = raw_smp_processor_id(),
		.tsc = rem_ticks(),
		.value = value,
	};
	int n;

	if (!rem.block)
		return;
	n = atomic_inc_return(&rem_event_next) - 1;
	if (n < 0 || n >= rem_event_limit)
		return;
	event.crc =
		~__crc32c_le(~0, (u8 *)&event, offsetof(typeof(event), crc));
	rem_event_area()[n] = event;
}
