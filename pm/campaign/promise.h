/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the program in the guest (work.c) reports to pm-judge: after each
 * operation, what a reader must now find. It stores the report into a raw
 * segment of its own, so that the recording has it at the place where the
 * operation had returned.
 */
#ifndef PM_PROMISE_H
#define PM_PROMISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PROMISE_NAME "promise"
#define PROMISE_BYTES 4096
/* A raw segment's content counts once its group may read it. */
#define PROMISE_SEALED 0040u

/* In the segment's first line; @done is stored last. */
struct promise {
	uint64_t done;	 /* operations that have returned */
	uint64_t digest; /* of what a reader finds then */
	uint64_t broken; /* line of work.c that found something wrong */
};

/* What counts of a segment, besides its content. */
struct promise_segment {
	char name[64];
	uint64_t bytes, generation, map_address;
	uint32_t type, persist, uid, gid, mode, block_bytes;
};

static inline uint64_t promise_mix(uint64_t digest, uint64_t word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
	return digest ^ digest >> 29;
}

static inline uint64_t promise_bytes(uint64_t digest, const void *data,
				     size_t bytes)
{
	const unsigned char *at = data;

	for (; bytes; bytes -= bytes < 8 ? bytes : 8, at += 8) {
		uint64_t word = 0;

		memcpy(&word, at, bytes < 8 ? bytes : 8);
		digest = promise_mix(digest, word);
	}
	return digest;
}

/* Blocks of zeros count nothing, whether they were written or never were. */
static inline uint64_t promise_block(uint64_t digest, uint64_t number,
				     const void *data, size_t bytes)
{
	const unsigned char *at = data;
	bool zeros = true;

	for (size_t i = 0; i < bytes && zeros; i++)
		zeros = !at[i];
	return zeros ? digest :
		       promise_bytes(promise_mix(digest, number), data, bytes);
}

static inline uint64_t promise_head(uint64_t digest,
				    const struct promise_segment *segment)
{
	return promise_bytes(digest, segment, sizeof(*segment));
}

static inline bool promise_counts(const struct promise_segment *segment)
{
	return segment->mode & PROMISE_SEALED &&
	       strcmp(segment->name, PROMISE_NAME) != 0;
}

_Static_assert(sizeof(struct promise_segment) == 112, "no padding to count");

#endif /* PM_PROMISE_H */
