/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CRC32C, by the CPU's instruction or by eight tables. The loader checks up to
 * 128 KiB of bodies before each resume, so a loop over bits would take longer
 * than everything else.
 */
#include "crc32c.h"

#define POLYNOMIAL_REFLECTED 0x82f63b78u

static u32 table[8][256];
static bool use_instruction;

void crc32c_init(bool has_instruction)
{
	use_instruction = has_instruction;
	if (has_instruction)
		return;
	for (u32 byte = 0; byte < 256; byte++) {
		u32 crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL_REFLECTED : 0);
		table[0][byte] = crc;
	}
	for (u32 byte = 0; byte < 256; byte++)
		for (int i = 1; i < 8; i++)
			table[i][byte] = table[i - 1][byte] >> 8 ^
					 table[0][table[i - 1][byte] & 0xff];
}

#ifdef __x86_64__
static u32 add_by_instruction(u32 crc, const u8 *at, size_t bytes)
{
	u64 wide = crc;

	for (; bytes >= 8; bytes -= 8, at += 8)
		__asm__("crc32q %1, %0" : "+r"(wide) : "r"(get_u64(at)));
	crc = (u32)wide;
	for (; bytes; bytes--, at++)
		__asm__("crc32b %1, %0" : "+r"(crc) : "r"(*at));
	return crc;
}
#endif

static u32 add_by_table(u32 crc, const u8 *at, size_t bytes)
{
	for (; bytes >= 8; bytes -= 8, at += 8) {
		u64 word = get_u64(at) ^ crc;

		crc = 0;
		for (int i = 0; i < 8; i++)
			crc ^= table[7 - i][word >> (8 * i) & 0xff];
	}
	for (; bytes; bytes--, at++)
		crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
	return crc;
}

u32 crc32c_add(u32 crc, const void *data, size_t bytes)
{
#ifdef __x86_64__
	if (use_instruction)
		return add_by_instruction(crc, data, bytes);
#endif
	return add_by_table(crc, data, bytes);
}

u32 crc32c(const void *data, size_t bytes)
{
	return crc32c_end(crc32c_add(CRC32C_BEGIN, data, bytes));
}
