/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The sum of the kernel's text and read-only data, which the MAC of an image covers
 * (rem_mac.h). It is over both ranges, one after the other, in chunks of 64 words:
 *
 *   chunk = sum of (m[i] + k[i]) * (m[i + 1] + k[i + 1]) over i = 0, 2, ... 62
 *   sum = (sum + chunk) * r for each chunk, modulo 2^130 - 5
 *
 * with m + k modulo 2^64. A block of two words adds its product times a power of r,
 * so that the kernel keeps the sum right at each poke by the difference.
 *
 * Why it is sound. k and r are secret, and so is every sum: all are only in the
 * loader's DRAM and in the page of the key. NVRAM has of a sum only the MAC, a function
 * of it with a key of its own for each boot, so that each changed image is a guess
 * that learns nothing of the ones before. Two chunks that differ in m[i] are congruent
 * for at most two of the 2^64 values that m[i + 1] + k[i + 1] may have (one without and
 * one with a carry), as the difference of two factors below 2^64 is not 0 modulo a
 * prime. Polynomials in r that differ are equal for no more values of r than they have
 * chunks. So a guess is right with less than one in 2^62. Another length is another
 * header.
 *
 * The key of sums belongs to one life of a kernel: it is derived from what the TPM
 * gives and nobody else gets, and from the count of the boot that loaded the kernel. So
 * the loader, which has checked the sum, hands it to the kernel that goes on.
 */
#ifndef REM_TEXT_H
#define REM_TEXT_H

#ifdef __KERNEL__
#include <linux/remanence/rem_mac.h>
#else
#include "rem_mac.h"
#endif

__extension__ typedef unsigned __int128 rem_u128;

#define REM_TEXT_BLOCK_BYTES 16
#define REM_TEXT_CHUNK_WORDS 64
#define REM_TEXT_CHUNK_BYTES 512

/*
 * The key of the sums of one life.
 * @name: what the name of all keys of this TPM (key_id) is the beginning of
 * @ret_key: r, then k
 */
static inline void rem_text_key(const rem_u8 name[REM_KEY_BYTES],
				rem_u64 counter,
				rem_u64 ret_key[REM_TEXT_KEY_WORDS])
{
	static const rem_u8 label[8] = "REMTEXT";
	rem_u64 part, left, words[REM_MAC_BYTES / sizeof(*ret_key)];
	struct rem_mac mac;

	for (part = 0; part < REM_TEXT_KEY_WORDS; part += left) {
		rem_mac_begin(&mac, name);
		rem_mac_add(&mac, label, sizeof(label));
		rem_mac_add(&mac, &counter, sizeof(counter));
		rem_mac_add(&mac, &part, sizeof(part));
		rem_mac_end(&mac, (rem_u8 *)words);
		left = REM_TEXT_KEY_WORDS - part;
		if (left > sizeof(words) / sizeof(*words))
			left = sizeof(words) / sizeof(*words);
		memcpy(ret_key + part, words, left * sizeof(*words));
	}
}

/* a += b * times, where that is below 2^192. */
static inline void rem_text_plus(rem_u64 a[3], const rem_u64 b[3],
				 rem_u64 times)
{
	rem_u128 carry = 0;
	int i;

	for (i = 0; i < 3; i++) {
		carry += (rem_u128)b[i] * times + a[i];
		a[i] = (rem_u64)carry;
		carry >>= 64;
	}
}

/* Congruent, and below 2^130 + 2^66. What is above 2^130 counts five times. */
static inline void rem_text_fold(rem_u64 number[3])
{
	rem_u64 above[3] = { number[2] >> 2 };

	number[2] &= 3;
	rem_text_plus(number, above, 5);
}

/* The one number from 0 to 2^130 - 6 that is congruent. */
static inline void rem_text_reduce(rem_u64 number[3])
{
	static const rem_u64 one[3] = { 1 };
	rem_u64 more[3];

	rem_text_fold(number);
	rem_text_fold(number);
	memcpy(more, number, sizeof(more));
	/* Five more reach 2^130 if it is the modulus or above. */
	rem_text_plus(more, one, 5);
	if (!(more[2] >> 2))
		return;
	more[2] &= 3;
	memcpy(number, more, sizeof(more));
}

/* a *= b, for an a below 2^135 and a b below 2^131. */
static inline void rem_text_multiply(rem_u64 a[3], const rem_u64 b[3])
{
	rem_u64 product[6] = { 0 }, above[3];
	rem_u128 carry;
	int i, j;

#pragma GCC unroll 3
	for (i = 0; i < 3; i++) {
		carry = 0;
#pragma GCC unroll 3
		for (j = 0; j < 3; j++) {
			carry += (rem_u128)a[i] * b[j] + product[i + j];
			product[i + j] = (rem_u64)carry;
			carry >>= 64;
		}
		product[i + 3] = (rem_u64)carry;
	}
	for (i = 0; i < 3; i++)
		above[i] = product[i + 2] >> 2 | product[i + 3] << 62;
	product[2] &= 3;
	memcpy(a, product, 3 * sizeof(*a));
	rem_text_plus(a, above, 5);
	rem_text_fold(a);
}

/* Add what @words of @m are worth in a chunk; @k: of the key. */
static inline void rem_text_products(rem_u64 sum[3], const rem_u64 *m,
				     const rem_u64 *k, int words)
{
	rem_u128 all = (rem_u128)sum[1] << 64 | sum[0], one;
	rem_u64 over = sum[2];
	int i;

#pragma GCC unroll 4
	for (i = 0; i < words; i += 2) {
		one = (rem_u128)(m[i] + k[i]) * (m[i + 1] + k[i + 1]);
		all += one;
		over += all < one;
	}
	sum[0] = (rem_u64)all;
	sum[1] = (rem_u64)(all >> 64);
	sum[2] = over;
}

/* Whole chunks at @data, which is aligned to words, after those before. */
static inline void rem_text_add(rem_u64 sum[3],
				const rem_u64 key[REM_TEXT_KEY_WORDS],
				const void *data, rem_u64 chunks)
{
	const rem_u64 r[3] = { key[0], key[1], 0 };
	const rem_u64 *m = data;

	for (; chunks; chunks--, m += REM_TEXT_CHUNK_WORDS) {
		rem_text_products(sum, m, key + 2, REM_TEXT_CHUNK_WORDS);
		rem_text_multiply(sum, r);
	}
}

/* sum -= number. */
static inline void rem_text_minus(rem_u64 sum[3], const rem_u64 number[3])
{
	rem_u64 less[3], modulus[3] = { ~(rem_u64)4, ~(rem_u64)0, 3 };
	rem_u64 borrow = 0;
	int i;

	memcpy(less, number, sizeof(less));
	rem_text_reduce(less);
	for (i = 0; i < 3; i++) {
		rem_u64 down = less[i] + borrow;

		/* Never both: where that overflows it is 0. */
		borrow = down < borrow || modulus[i] < down;
		modulus[i] -= down;
	}
	rem_text_plus(sum, modulus, 1);
	rem_text_fold(sum);
}

/*
 * A block has changed: the sum is to have @after, of two words, instead of @before.
 * @block: its number in its chunk
 * @chunks: how many there are from its chunk to the end, with it
 */
static inline void rem_text_replace(rem_u64 sum[3],
				    const rem_u64 key[REM_TEXT_KEY_WORDS],
				    rem_u64 block, rem_u64 chunks,
				    const rem_u64 *before, const rem_u64 *after)
{
	rem_u64 old[3] = { 0 }, change[3] = { 0 };
	rem_u64 square[3] = { key[0], key[1], 0 };

	rem_text_products(old, before, key + 2 + 2 * block, 2);
	rem_text_products(change, after, key + 2 + 2 * block, 2);
	rem_text_minus(change, old);
	for (; chunks; chunks >>= 1) {
		if (chunks & 1)
			rem_text_multiply(change, square);
		rem_text_multiply(square, square);
	}
	rem_text_plus(sum, change, 1);
	rem_text_fold(sum);
}

#endif /* REM_TEXT_H */
