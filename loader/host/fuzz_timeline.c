/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damaged timelines. An input is a list of events: {place u16, flags u8, the first
 * bytes of struct rem_event}. Bit 0 of the flags corrects the checksum, bit 1 the
 * sequence: that of the consumed image; bit 2 adds one to it.
 *
 * Oracle: a reason is given only by an event that has its checksum, its sequence and
 * its slot; once all events are reported none is; other bytes are as they were.
 */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "build_record.h"

#define CONSUMED 8u
#define EVENTS (REM_SLOTS * REM_EVENTS_MAX)
#define BLOCK_BYTES (REM_TIMELINE_OFFSET + EVENTS * sizeof(struct rem_event))
#define HEAD_BYTES 3u
#define EVENT_BYTES 24u
#define PLACES_MAX 256u

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

static u8 *block;
static u32 places[PLACES_MAX], place_count; /* of the events of this input */
static const u32 reasons[] = { REM_COLD_ALREADY_CONSUMED,
			       REM_COLD_NOT_COMMITTED };

static u8 *event_at(u32 n)
{
	return block + REM_TIMELINE_OFFSET + n * sizeof(struct rem_event);
}

static struct rem_event read_event(u32 n)
{
	struct rem_event event;

	memcpy(&event, event_at(n), sizeof(event));
	return event;
}

static void put(u32 n, u8 flags, const u8 *from)
{
	struct rem_event event = { 0 };

	memcpy(&event, from, EVENT_BYTES);
	if (flags & 2)
		event.sequence = CONSUMED + (flags >> 2 & 1);
	if (flags & 1)
		event.crc = crc32c(&event, offsetof(struct rem_event, crc));
	memcpy(event_at(n), &event, sizeof(event));
	places[place_count++] = n;
}

/* Whether event @n gives @reason, by the words of format/rem_image.h. */
static bool gives(u32 n, u32 reason)
{
	struct rem_event event = read_event(n);
	u32 type = reason == REM_COLD_CPU_LOST	? REM_EVENT_GO_CPU_LOST :
		   reason == REM_COLD_MICROCODE ? REM_EVENT_GO_MICROCODE :
						  REM_EVENT_GO_TSC;

	return event.type == type && !(event.value >> 32 & 1) &&
	       (event.sequence == CONSUMED || event.sequence == CONSUMED + 1) &&
	       n / REM_EVENTS_MAX == event.sequence % REM_SLOTS &&
	       event.crc == crc32c(&event, offsetof(struct rem_event, crc));
}

static void check_named(u32 reason)
{
	bool cpu = false, microcode = false, tsc = false;

	for (u32 i = 0; i < place_count; i++) {
		cpu |= gives(places[i], REM_COLD_CPU_LOST);
		microcode |= gives(places[i], REM_COLD_MICROCODE);
		tsc |= gives(places[i], REM_COLD_TSC);
	}
	if ((reason == REM_COLD_CPU_LOST && !cpu) ||
	    (reason == REM_COLD_MICROCODE && !microcode) ||
	    (reason == REM_COLD_TSC && !tsc) ||
	    (!reason && (cpu || microcode || tsc)))
		abort();
}

static void report_all(void)
{
	for (u32 i = 0; i < place_count; i++) {
		u32 n = places[i];
		struct rem_event before = read_event(n), after = before;

		if (rem_event_report(&after)) {
			memcpy(event_at(n), &after, sizeof(after));
			before.value |= 1ull << 32;
			before.crc = after.crc;
		}
		if (memcmp(&before, &after, sizeof(after)))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct decision decision = { .reason = 0 };

	if (!block) {
		crc32c_init(true);
		/* Exactly the bytes that may be read, so that ASan detects overruns. */
		block = calloc(1, BLOCK_BYTES);
	}
	while (place_count)
		memset(event_at(places[--place_count]), 0,
		       sizeof(struct rem_event));
	build_block(block, 1ull << 30, CONSUMED);
	for (; bytes >= HEAD_BYTES + EVENT_BYTES && place_count < PLACES_MAX;
	     data += HEAD_BYTES + EVENT_BYTES,
	     bytes -= HEAD_BYTES + EVENT_BYTES)
		put(get_u16(data) % EVENTS, data[2], data + HEAD_BYTES);
	if (rem_go_given_up(block, &decision))
		abort();
	/* Scans of all events are what takes time: one reason for each input. */
	decision.reason = reasons[bytes % GO_COUNT(reasons)];
	check_named(rem_go_given_up(block, &decision));
	report_all();
	check_named(0);
	if (rem_go_given_up(block, &decision))
		abort();
	return 0;
}
