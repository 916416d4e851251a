// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The checksum in user space: SSE4.2's instruction, or a table. */
#include "../core/block.h"

static rem_u32 by_table(rem_u32 crc, const rem_u8 *at, size_t bytes)
{
	static rem_u32 table[256];

	if (!table[255])
		for (rem_u32 byte = 0; byte < 256; byte++) {
			rem_u32 value = byte;

			for (int bit = 0; bit < 8; bit++)
				value = value >> 1 ^
					(value & 1 ? 0x82f63b78u : 0);
			table[byte] = value;
		}
	while (bytes--)
		crc = crc >> 8 ^ table[(crc ^ *at++) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static rem_u32
by_instruction(rem_u32 crc, const rem_u8 *at, size_t bytes)
{
	unsigned long long wide = crc;

	for (; bytes >= 8; bytes -= 8, at += 8) {
		unsigned long long word;

		memcpy(&word, at, 8);
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (rem_u32)wide;
	for (; bytes; bytes--)
		crc = __builtin_ia32_crc32qi(crc, *at++);
	return crc;
}
#endif

rem_u32 pm_crc32c_add(rem_u32 crc, const void *data, size_t bytes)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return by_instruction(crc, data, bytes);
#endif
	return by_table(crc, data, bytes);
}

/* There is no concurrent change here. */
rem_u32 pm_copy_crc32c(struct pm_env *env, void *to, const void *from,
		       size_t bytes, rem_u32 crc)
{
	pm_copy(env, to, from, bytes);
	return pm_crc32c_add(crc, from, bytes);
}

bool pm_fetch_crc32c(void *to, const void *from, size_t bytes, rem_u32 *crc)
{
	if (!pm_fetch(to, from, bytes))
		return false;
	*crc = pm_crc32c_add(*crc, to, bytes);
	return true;
}
