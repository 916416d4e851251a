// SPDX-License-Identifier: GPL-2.0-only
/*
 * The registry's checksum. By SSE4.2's instruction, which needs no FPU: the kernel's
 * crc32c() goes through a table of 8 KiB unless a driver is loaded, and that was more
 * than all else that an fsync does in memory.
 */
#include <linux/crc32c.h>

#include <asm/cpufeature.h>

#include "persist.h"

#define WORDS 16 /* of one turn of the loop */
#define TURN_BYTES (WORDS * sizeof(u64))

static __always_inline u64 add_word(u64 crc, u64 word)
{
	asm("crc32q %1, %0" : "+r"(crc) : "rm"(word));
	return crc;
}

/**
 * rem_checksum - CRC32C as the registry has it
 * @data: aligned to 8 bytes
 * @bytes: a multiple of 4
 *
 * Return: the checksum.
 */
u32 rem_checksum(const void *data, size_t bytes)
{
	const u64 *at = data;
	u64 crc = ~0u;
	unsigned int i;
	u32 last;

	if (!cpu_feature_enabled(X86_FEATURE_XMM4_2))
		return ~crc32c(~0, data, bytes);
	for (; bytes >= TURN_BYTES; bytes -= TURN_BYTES, at += WORDS) {
#pragma GCC unroll 16
		for (i = 0; i < WORDS; i++)
			crc = add_word(crc, at[i]);
	}
	for (; bytes >= sizeof(u64); bytes -= sizeof(u64), at++)
		crc = add_word(crc, *at);
	last = crc;
	if (bytes)
		asm("crc32l %1, %0" : "+r"(last) : "rm"(*(const u32 *)at));
	return ~last;
}
