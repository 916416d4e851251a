// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checksum, alone and in one pass with a copy. By SSE4.2's instruction, which
 * needs no FPU; the kernel's crc32c() serves where there is none, and is slower even
 * where its driver for that instruction is loaded, which nothing ensures.
 */
#include <linux/crc32c.h>
#include <linux/export.h>
#include <linux/libnvdimm.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include <asm/asm.h>
#include <asm/cpufeature.h>

#include "block.h"
#include "pmcore.h"

#define WORDS 64 /* of one turn of a loop: the smallest block */
#define TURN_BYTES (WORDS * sizeof(u64))
#define PIECE_BYTES 256 /* on the stack */

static __always_inline u64 add_word(u64 crc, u64 word)
{
	asm("crc32q %1, %0" : "+r"(crc) : "rm"(word));
	return crc;
}

static u64 add_turns(u64 crc, const u64 *from, size_t turns)
{
	unsigned int i;

	for (; turns; turns--, from += WORDS) {
#pragma GCC unroll 64
		for (i = 0; i < WORDS; i++)
			crc = add_word(crc, from[i]);
	}
	return crc;
}

static __always_inline u64 store_turns(u64 crc, u64 *to, const u64 *from,
				       size_t turns, bool past_caches)
{
	unsigned int i;

	for (; turns; turns--, to += WORDS, from += WORDS) {
#pragma GCC unroll 64
		for (i = 0; i < WORDS; i++) {
			u64 word = READ_ONCE(from[i]);

			crc = add_word(crc, word);
			if (past_caches)
				asm volatile("movnti %1, %0"
					     : "=m"(to[i])
					     : "r"(word));
			else
				to[i] = word;
		}
	}
	return crc;
}

/* The same out of media, which may have lost some: false then. */
static bool fetch_turn(u64 *to, const u64 *from, u64 *crc)
{
	u32 lost = 1;
	u64 word;

	asm volatile("	.set pm_at, 0\n"
		     "	.rept %c[words]\n"
		     "1: movq pm_at(%[from]), %[word]\n"
		     _ASM_EXTABLE_TYPE(1b, 2f, EX_TYPE_DEFAULT_MCE_SAFE)
		     "	crc32q %[word], %[crc]\n"
		     "	movq %[word], pm_at(%[to])\n"
		     "	.set pm_at, pm_at + 8\n"
		     "	.endr\n"
		     "	xorl %[lost], %[lost]\n"
		     "2:\n"
		     : [word] "=&r"(word), [lost] "+r"(lost), [crc] "+r"(*crc)
		     : [from] "r"(from), [to] "r"(to), [words] "i"(WORDS)
		     : "cc", "memory");
	return !lost;
}

static bool fetch_turns(u64 *to, const u64 *from, size_t turns, rem_u32 *crc)
{
	u64 wide = *crc;

	for (; turns; turns--, to += WORDS, from += WORDS)
		if (!fetch_turn(to, from, &wide))
			return false;
	*crc = wide;
	return true;
}

rem_u32 pm_crc32c_add(rem_u32 crc, const void *data, size_t bytes)
{
	const u8 *at = data;
	u64 wide = crc;

	if (!cpu_feature_enabled(X86_FEATURE_XMM4_2))
		return crc32c(crc, data, bytes);
	if (bytes == sizeof(u32)) { /* what each block's check begins with */
		asm("crc32l %1, %0" : "+r"(crc) : "rm"(*(const u32 *)data));
		return crc;
	}
	wide = add_turns(wide, data, bytes / TURN_BYTES);
	at += round_down(bytes, TURN_BYTES);
	for (bytes %= TURN_BYTES; bytes >= 8; bytes -= 8, at += 8)
		wide = add_word(wide, *(const u64 *)at);
	for (; bytes >= 4; bytes -= 4, at += 4)
		asm("crc32l %1, %k0" : "+r"(wide) : "rm"(*(const u32 *)at));
	for (; bytes; bytes--, at++)
		asm("crc32b %1, %k0" : "+r"(wide) : "rm"(*at));
	return wide;
}
EXPORT_SYMBOL_GPL(pm_crc32c_add);

/* Any bytes on any CPU: what is checked is a copy of its own. */
static u32 copy_in_pieces(struct pm_env *env, void *to, const void *from,
			  size_t bytes, u32 crc)
{
	u8 piece[PIECE_BYTES];

	while (bytes) {
		size_t now = min(bytes, sizeof(piece));

		memcpy(piece, from, now);
		crc = pm_crc32c_add(crc, piece, now);
		pm_copy(env, to, piece, now);
		to += now;
		from += now;
		bytes -= now;
	}
	return crc;
}

static bool fetch_in_pieces(void *to, const void *from, size_t bytes,
			    rem_u32 *crc)
{
	u8 piece[PIECE_BYTES];

	while (bytes) {
		size_t now = min(bytes, sizeof(piece));

		if (!pm_fetch(piece, from, now))
			return false;
		*crc = pm_crc32c_add(*crc, piece, now);
		memcpy(to, piece, now);
		to += now;
		from += now;
		bytes -= now;
	}
	return true;
}

rem_u32 pm_copy_crc32c(struct pm_env *env, void *to, const void *from,
		       size_t bytes, rem_u32 crc)
{
	/* A window ends with a page, and so with a turn. */
	if (!cpu_feature_enabled(X86_FEATURE_XMM4_2) ||
	    !IS_ALIGNED((unsigned long)to | bytes, TURN_BYTES))
		return copy_in_pieces(env, to, from, bytes, crc);
	pmcore_lost_write(to, bytes);
	pmcore_lost_written(to, bytes);
	while (bytes) {
		size_t now = bytes;
		void *at = to;

		if (pmcore.protected)
			at = pmcore_window_open(to, &now);
		if (pmcore_stays(env)) {
			crc = store_turns(crc, at, from, now / TURN_BYTES,
					  false);
			if (!pmcore_stays(env))
				arch_wb_cache_pmem(at, now);
		} else {
			crc = store_turns(crc, at, from, now / TURN_BYTES,
					  true);
		}
		if (pmcore.protected)
			pmcore_window_close(at, now);
		to += now;
		from += now;
		bytes -= now;
	}
	return crc;
}
EXPORT_SYMBOL_GPL(pm_copy_crc32c);

bool pm_fetch_crc32c(void *to, const void *from, size_t bytes, rem_u32 *crc)
{
	if (!cpu_feature_enabled(X86_FEATURE_XMM4_2) ||
	    !IS_ALIGNED(bytes, TURN_BYTES))
		return fetch_in_pieces(to, from, bytes, crc);
	return fetch_turns(to, pmcore_media(from, bytes), bytes / TURN_BYTES,
			   crc);
}
EXPORT_SYMBOL_GPL(pm_fetch_crc32c);
