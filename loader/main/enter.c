/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "enter.h"

#include "../core/crc32c.h"
#include "../core/record.h"
#include "../hw/flush.h"

/* One aligned store: a cut leaves the old word or the new one. */
static bool store_word(const struct machine *machine, u32 offset, u64 raw)
{
	u8 *at = block_at(machine, offset);

	*(volatile u64 *)at = raw;
	flush(at, sizeof(raw));
	return *(volatile u64 *)at == raw;
}

bool consume(const struct machine *machine, u32 sequence)
{
	struct rem_word word = record_consumed(sequence);
	u64 raw;

	memcpy(&raw, &word, sizeof(raw));
	return store_word(machine, REM_CONSUMED_OFFSET, raw);
}

bool close_images(const struct machine *machine,
		  const struct decision *decision)
{
	u32 clear = decision->clear;
	bool closed = true;

	/* A word that does not hold what was stored in it closes nothing. */
	if (decision->consume && !consume(machine, decision->consume))
		clear = (1u << REM_SLOTS) - 1;
	for (u32 n = 0; n < REM_SLOTS; n++) {
		u32 at = REM_COMMIT_OFFSET + n * REM_COMMIT_STRIDE_BYTES;

		if (clear & 1u << n)
			closed &= store_word(machine, at, 0);
	}
	return closed;
}

void loader_event(const struct machine *machine, u32 sequence, u32 n,
		  enum rem_event_type type, u64 tsc, u64 value)
{
	struct rem_event event = {
		.sequence = sequence,
		.type = (u16)type,
		.tsc = tsc,
		.value = value,
	};
	u32 area = REM_TIMELINE_OFFSET +
		   sequence % REM_SLOTS * REM_TIMELINE_STRIDE_BYTES;

	if (n >= REM_EVENTS_GO - REM_EVENTS_LOADER)
		return;
	event.crc = crc32c(&event, offsetof(struct rem_event, crc));
	memcpy(block_at(machine,
			area + (REM_EVENTS_LOADER + n) * (u32)sizeof(event)),
	       &event, sizeof(event));
}

void report_events(const struct machine *machine)
{
	/* The timelines of both slots, which adjoin. */
	for (u32 n = 0; n < REM_SLOTS * REM_EVENTS_MAX; n++) {
		struct rem_event event;
		u8 *at = block_at(machine,
				  REM_TIMELINE_OFFSET + n * (u32)sizeof(event));

		memcpy(&event, at, sizeof(event));
		if (!rem_event_report(&event))
			continue;
		memcpy(at, &event, sizeof(event));
		flush(at, sizeof(event));
	}
}
