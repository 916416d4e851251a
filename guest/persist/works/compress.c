// SPDX-License-Identifier: Apache-2.0 OR MIT
/* LZ77 of 64 KiB of words, and back again. */
#include "work.h"

#define BYTES 65536
#define HASH_BITS 12
#define LEAST 4
#define MOST 130

const char work_name[] = "compress";
static uint8_t text[BYTES], packed[2 * BYTES], unpacked[BYTES];
static uint32_t last_at[1 << HASH_BITS];

static void make_text(uint64_t round)
{
	size_t at = 0;

	while (at < BYTES) {
		uint64_t word =
			work_mix(round << 8 | work_mix(round + at) % 200);

		for (size_t i = 0; i < 3 + word % 6 && at < BYTES; i++)
			text[at++] = (uint8_t)('a' + (word >> 5 * i) % 26);
		if (at < BYTES)
			text[at++] = ' ';
	}
}

static uint32_t hash_of(const uint8_t *at)
{
	uint32_t four = (uint32_t)at[0] | (uint32_t)at[1] << 8 |
			(uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;

	return four * 2654435761U >> (32 - HASH_BITS);
}

static size_t same(const uint8_t *one, const uint8_t *other, size_t most)
{
	size_t count = 0;

	while (count < most && one[count] == other[count])
		count++;
	return count;
}

/* The match at @at, in the text before it; 0 if there is none. */
static size_t match(size_t at, size_t *ret_back)
{
	size_t most = BYTES - at < MOST ? BYTES - at : MOST;
	size_t before, length;

	if (most < LEAST)
		return 0;
	before = last_at[hash_of(text + at)];
	last_at[hash_of(text + at)] = (uint32_t)at + 1;
	if (!before || at - (before - 1) > UINT16_MAX)
		return 0;
	*ret_back = at - (before - 1);
	length = same(text + before - 1, text + at, most);
	return length < LEAST ? 0 : length;
}

static size_t pack(void)
{
	size_t at = 0, out = 0, back = 0;

	for (size_t i = 0; i < 1 << HASH_BITS; i++)
		last_at[i] = 0;
	while (at < BYTES) {
		size_t length = match(at, &back);

		if (length) {
			packed[out++] = (uint8_t)(0x80 | (length - LEAST));
			packed[out++] = (uint8_t)back;
			packed[out++] = (uint8_t)(back >> 8);
			at += length;
		} else {
			packed[out++] = 0;
			packed[out++] = text[at++];
		}
	}
	return out;
}

static size_t unpack(size_t count)
{
	size_t at = 0, out = 0;

	while (at < count) {
		uint8_t word = packed[at++];

		if (word & 0x80) {
			size_t back = packed[at] | (size_t)packed[at + 1] << 8;

			at += 2;
			for (size_t i = 0; i < (size_t)(word & 0x7f) + LEAST;
			     i++) {
				unpacked[out] = unpacked[out - back];
				out++;
			}
		} else {
			unpacked[out++] = packed[at++];
		}
	}
	return out;
}

uint64_t work(uint64_t rounds)
{
	uint64_t digest = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		size_t count;

		make_text(round);
		count = pack();
		digest = work_fold(digest, count);
		digest = work_fold(digest, unpack(count) == BYTES);
		digest = work_fold(digest, same(text, unpacked, BYTES));
		for (size_t i = 0; i < count; i++)
			digest = digest * 31 + packed[i];
	}
	return digest;
}
