/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The sum of the kernel's text: what it is, by numbers that Python has made from the
 * words of format/rem_text.h, and that it stays right when blocks are replaced.
 */
#include <stdlib.h>

#include "../../format/rem_text.h"
#include "../core/base.h"
#include "check.h"

#define COUNTER 1000u
#define CHUNKS_MAX 100u
#define REPLACED 20000u

static u64 key[REM_TEXT_KEY_WORDS];
static u64 *text;

/* @kind: 0: bytes with a pattern, 1: zeros, 2: ones. */
static void fill(u32 chunks, u32 kind)
{
	u8 *bytes = (u8 *)text;

	for (u32 i = 0; i < chunks * REM_TEXT_CHUNK_BYTES; i++)
		bytes[i] = (u8)(kind ? (kind - 1) * 0xff :
				       i * 7 + 3 + (i >> 8) * 13);
}

static const struct {
	u32 chunks, kind;
	u64 sum[3];
} vectors[] = {
	{ 1, 0, { 0x4058189a4cf1fe9e, 0x5c6010aaf8d64afe, 0x2 } },
	{ 8, 0, { 0x795f598988f92401, 0x6b53cf018ecc9dc1, 0x2 } },
	{ 100, 0, { 0xe846774a15d43017, 0xa455c2396e52ebaf, 0x3 } },
	{ 24, 1, { 0x334bf71a94f1c2d3, 0xefa8d5c598445857, 0x1 } },
	{ 24, 2, { 0x99c95dcb162507a5, 0x43957687006292fb, 0x1 } },
};

/* By Python: int.from_bytes() of hashlib.blake2s(), with a key of 5 * i + 1. */
static void key_is_as_described(void)
{
	u8 name[REM_KEY_BYTES];

	for (u32 i = 0; i < REM_KEY_BYTES; i++)
		name[i] = (u8)(i * 5 + 1);
	rem_text_key(name, COUNTER, key);
	CHECK(key[0] == 0x94465da502a55b1a, "the first word is %lx", key[0]);
	CHECK(key[65] == 0xefbe3e21f1012af0, "the last word is %lx", key[65]);
}

static void sum_of(u32 chunks, u64 ret_sum[3])
{
	memset(ret_sum, 0, 3 * sizeof(*ret_sum));
	rem_text_add(ret_sum, key, text, chunks);
	rem_text_reduce(ret_sum);
}

static void sum_is_as_described(void)
{
	for (u32 i = 0; i < GO_COUNT(vectors); i++) {
		u64 sum[3];

		fill(vectors[i].chunks, vectors[i].kind);
		sum_of(vectors[i].chunks, sum);
		CHECK(!memcmp(sum, vectors[i].sum, sizeof(sum)),
		      "vector %u: %lx %lx %lx", i, sum[2], sum[1], sum[0]);
	}
}

/* Text and data are two ranges, and one sum. */
static void parts_are_one_sum(void)
{
	u64 whole[3], parts[3];

	fill(8, 0);
	sum_of(8, whole);
	for (u32 first = 0; first <= 8; first++) {
		memset(parts, 0, sizeof(parts));
		rem_text_add(parts, key, text, first);
		rem_text_add(parts, key, text + first * REM_TEXT_CHUNK_WORDS,
			     8 - first);
		rem_text_reduce(parts);
		CHECK(!memcmp(whole, parts, sizeof(whole)), "%u chunks first",
		      first);
	}
}

/* Numbers around multiples of the modulus, 2^130 - 5, that a sum may pass. */
static void one_number_stands_for_all_that_are_congruent(void)
{
	static const u64 modulus[3] = { ~4ull, ~0ull, 3 };
	static const u64 one[3] = { 1 };

	for (u64 times = 0; times < 40; times++)
		for (u64 more = 0; more < 8; more++) {
			u64 number[3] = { 0 };

			rem_text_plus(number, modulus, times);
			rem_text_plus(number, one, more);
			rem_text_reduce(number);
			CHECK(number[0] == more && !number[1] && !number[2],
			      "%lu times the modulus and %lu", times, more);
		}
	for (u64 less = 1; less < 8; less++) {
		u64 number[3], right[3] = { ~4ull - less, ~0ull, 3 };

		memcpy(number, right, sizeof(number));
		rem_text_reduce(number);
		CHECK(!memcmp(number, right, sizeof(number)),
		      "the modulus less %lu", less);
	}
}

static u64 random_word(void)
{
	static u64 state = 0x2545f4914f6cdd1d;

	return check_random(&state);
}

/* Also those that are nearly the modulus, for sums and for blocks. */
static u64 any_word(void)
{
	u64 word = random_word();

	return word % 8 ? random_word() : 0 - (word >> 3) % 3;
}

static void replace(u64 sum[3], u32 chunks, u32 block)
{
	u32 in_chunk = REM_TEXT_CHUNK_WORDS / 2;
	u64 *at = text + 2 * block, before[2];

	memcpy(before, at, sizeof(before));
	at[0] = any_word();
	if (random_word() % 2)
		at[1] = any_word();
	rem_text_replace(sum, key, block % in_chunk, chunks - block / in_chunk,
			 before, at);
}

static void replaced_blocks_keep_the_sum_right(void)
{
	u32 in_chunk = REM_TEXT_CHUNK_WORDS / 2;

	for (u32 chunks = 1; chunks <= CHUNKS_MAX; chunks += 11) {
		u64 sum[3], right[3];

		fill(chunks, 0);
		sum_of(chunks, sum);
		for (u32 i = 0; i < REPLACED / CHUNKS_MAX; i++) {
			u64 now[3];

			replace(sum, chunks,
				(u32)(random_word() % (chunks * in_chunk)));
			memcpy(now, sum, sizeof(now));
			rem_text_reduce(now);
			sum_of(chunks, right);
			CHECK(!memcmp(now, right, sizeof(now)),
			      "%u chunks, replaced %u times", chunks, i + 1);
		}
	}
}

/* A sum that is never reduced to the least number stays below its limit. */
static void sums_do_not_grow(void)
{
	u64 sum[3], right[3];

	fill(1, 0);
	sum_of(1, sum);
	for (u32 i = 0; i < REPLACED; i++) {
		replace(sum, 1, i % 32);
		CHECK(sum[2] < 8, "replaced %u times: %lx", i + 1, sum[2]);
	}
	sum_of(1, right);
	rem_text_reduce(sum);
	CHECK(!memcmp(sum, right, sizeof(sum)), "after all");
}

void test_text(void)
{
	text = malloc(CHUNKS_MAX * REM_TEXT_CHUNK_BYTES);
	key_is_as_described();
	sum_is_as_described();
	parts_are_one_sum();
	one_number_stands_for_all_that_are_congruent();
	replaced_blocks_keep_the_sum_right();
	sums_do_not_grow();
	free(text);
}
