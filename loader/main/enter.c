/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "enter.h"

#include "../core/crc32c.h"
#include "../core/record.h"
#include "../hw/flush.h"

bool consume(const struct machine *machine, u32 sequence)
{
	u8 *at = block_at(machine, REM_CONSUMED_OFFSET);
	struct rem_word word = record_consumed(sequence);
	u64 raw;

	memcpy(&raw, &word, sizeof(raw));
	/* One aligned store: a cut leaves the old word or the new one. */
	*(volatile u64 *)at = raw;
	flush(at, sizeof(raw));
	return *(volatile u64 *)at == raw;
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
