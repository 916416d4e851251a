/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * How an image is authenticated: BLAKE2s-256 with a key (RFC 7693) over what the
 * loader is to believe. The kernel makes it in Stop, the loader compares it.
 *
 * It covers, in this order: the digest of the machine description (BLAKE2s-256
 * without a key, so that it can be made when there is time), the contexts of all CPUs,
 * the sum of the kernel's text and read-only data if the header has a place of them
 * (rem_text.h, with the reason why a sum is enough), and the header of the body, with
 * zeros instead of the MAC. Not the other memory that the contexts point to: who writes
 * to it while the power is off is the master of the programs that go on (SECURITY.md).
 *
 * A state of this function is as secret as the key.
 */
#ifndef REM_MAC_H
#define REM_MAC_H

#ifdef __KERNEL__
#include <linux/remanence/rem_image.h>
#include <linux/string.h>
#else
#include <string.h>

#include "rem_image.h"
#endif

#define REM_MAC_BYTES 32
#define REM_MAC_BLOCK_BYTES 64

struct rem_mac {
	rem_u32 h[8];
	rem_u64 bytes; /* that are compressed already */
	rem_u32 used;  /* of @block; it is compressed when more follows */
	rem_u8 block[REM_MAC_BLOCK_BYTES];
};

static const rem_u32 rem_mac_iv[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static inline rem_u32 rem_mac_rotate(rem_u32 word, int bits)
{
	return word >> bits | word << (32 - bits);
}

static inline void rem_mac_mix(rem_u32 *v, int a, int b, int c, int d,
			       rem_u32 x, rem_u32 y)
{
	v[a] += v[b] + x;
	v[d] = rem_mac_rotate(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = rem_mac_rotate(v[b] ^ v[c], 12);
	v[a] += v[b] + y;
	v[d] = rem_mac_rotate(v[d] ^ v[a], 8);
	v[c] += v[d];
	v[b] = rem_mac_rotate(v[b] ^ v[c], 7);
}

/*
 * The function F of RFC 7693, 3.2. Its rounds are unrolled: then the places in the
 * message are numbers that the compiler knows.
 */
static inline void rem_mac_compress(struct rem_mac *mac, _Bool last)
{
	static const rem_u8 order[10][16] = {
		{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
		{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
		{ 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
		{ 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
		{ 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
		{ 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
		{ 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
		{ 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
		{ 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
		{ 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
	};
	rem_u32 v[16], m[16];
	int i;

	mac->bytes += mac->used;
	memcpy(m, mac->block, sizeof(m));
	memcpy(v, mac->h, sizeof(mac->h));
	memcpy(v + 8, rem_mac_iv, sizeof(rem_mac_iv));
	v[12] ^= (rem_u32)mac->bytes;
	v[13] ^= (rem_u32)(mac->bytes >> 32);
	if (last)
		v[14] = ~v[14];
#pragma GCC unroll 10
	for (i = 0; i < 10; i++) {
		const rem_u8 *s = order[i];

		rem_mac_mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
		rem_mac_mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
		rem_mac_mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
		rem_mac_mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
		rem_mac_mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
		rem_mac_mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
		rem_mac_mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
		rem_mac_mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
	}
	for (i = 0; i < 8; i++)
		mac->h[i] ^= v[i] ^ v[i + 8];
	mac->used = 0;
}

/* Authenticate the @bytes at @data, after those before. */
static inline void rem_mac_add(struct rem_mac *mac, const void *data,
			       rem_u64 bytes)
{
	const rem_u8 *from = data;

	while (bytes) {
		rem_u32 some = REM_MAC_BLOCK_BYTES - mac->used;

		/* A full block waits: the last one is compressed as such. */
		if (!some) {
			rem_mac_compress(mac, 0);
			continue;
		}
		if (some > bytes)
			some = (rem_u32)bytes;
		memcpy(mac->block + mac->used, from, some);
		mac->used += some;
		from += some;
		bytes -= some;
	}
}

/* @key: REM_KEY_BYTES, or NULL for a digest. */
static inline void rem_mac_begin(struct rem_mac *mac, const rem_u8 *key)
{
	memset(mac, 0, sizeof(*mac));
	memcpy(mac->h, rem_mac_iv, sizeof(rem_mac_iv));
	/* Fanout and depth 1, and the sizes of key and result. */
	mac->h[0] ^= 0x01010000 | REM_MAC_BYTES;
	if (!key)
		return;
	mac->h[0] ^= REM_KEY_BYTES << 8;
	memcpy(mac->block, key, REM_KEY_BYTES);
	mac->used = REM_MAC_BLOCK_BYTES;
}

static inline void rem_mac_end(struct rem_mac *mac,
			       rem_u8 ret_mac[REM_MAC_BYTES])
{
	memset(mac->block + mac->used, 0, REM_MAC_BLOCK_BYTES - mac->used);
	rem_mac_compress(mac, 1);
	memcpy(ret_mac, mac->h, REM_MAC_BYTES);
}

/* Contexts larger than this are of no machine. */
#define REM_MAC_CONTEXTS_MAX 0x1000000

/*
 * Digest of the machine description, which is as it was when the machine was armed.
 * @at: the body in the block, of the sizes in @body.
 */
static inline void rem_mac_table(const struct rem_body *body, const void *at,
				 rem_u8 ret_digest[REM_MAC_BYTES])
{
	struct rem_mac mac;

	rem_mac_begin(&mac, NULL);
	rem_mac_add(&mac, (const rem_u8 *)at + REM_BODY_HEADER_BYTES,
		    body->body_bytes - REM_BODY_HEADER_BYTES);
	rem_mac_end(&mac, ret_digest);
}

/* After rem_mac_begin(), what is known before the header is. */
static inline void rem_mac_contexts(struct rem_mac *mac,
				    const rem_u8 table[REM_MAC_BYTES],
				    const struct rem_body *body,
				    const void *contexts)
{
	rem_mac_add(mac, table, REM_MAC_BYTES);
	rem_mac_add(mac, contexts,
		    (rem_u64)body->context_bytes * body->cpu_count);
}

/* After the contexts. @sum: as rem_text_reduce() leaves it. */
static inline void rem_mac_text(struct rem_mac *mac,
				const struct rem_body *body,
				const rem_u64 sum[3])
{
	if (body->text_pages)
		rem_mac_add(mac, sum, 3 * sizeof(*sum));
}

/* At last the header, and the MAC itself. */
static inline void rem_mac_header(struct rem_mac *mac,
				  const struct rem_body *body,
				  rem_u8 ret_mac[REM_MAC_BYTES])
{
	static const rem_u8 none[REM_MAC_BYTES];
	const rem_u8 *header = (const void *)body;
	rem_u32 at = offsetof(struct rem_body, mac);

	rem_mac_add(mac, header, at);
	rem_mac_add(mac, none, REM_MAC_BYTES);
	rem_mac_add(mac, header + at + REM_MAC_BYTES,
		    REM_BODY_HEADER_BYTES - at - REM_MAC_BYTES);
	rem_mac_end(mac, ret_mac);
}

#endif /* REM_MAC_H */
