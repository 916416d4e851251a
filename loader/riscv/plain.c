/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Functions that the compiler may call, and what needs nothing on this architecture. */
#include "../core/base.h"
#include "../hw/paging.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
	u8 *out = to;
	const u8 *in = from;

	if (!(((uintptr_t)out | (uintptr_t)in) & 7))
		for (; bytes >= 8; bytes -= 8, out += 8, in += 8)
			*(u64 *)(void *)out = *(const u64 *)(const void *)in;
	while (bytes--)
		*out++ = *in++;
	return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
	u8 *out = to;
	const u8 *in = from;

	if ((uintptr_t)to - (uintptr_t)from >= bytes)
		return memcpy(to, from, bytes);
	while (bytes--)
		out[bytes] = in[bytes];
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	u64 pattern = (u8)value * 0x0101010101010101ull;
	u8 *out = to;

	if (!((uintptr_t)out & 7))
		for (; bytes >= 8; bytes -= 8, out += 8)
			*(u64 *)(void *)out = pattern;
	while (bytes--)
		*out++ = (u8)value;
	return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
	const u8 *x = a, *y = b;

	for (; bytes; bytes--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

/* The compiler calls these where the instruction set has no instruction. */
u32 __bswapsi2(u32 value);
u64 __bswapdi2(u64 value);
int __paritydi2(u64 value);
int __ctzdi2(u64 value);

u32 __bswapsi2(u32 value)
{
	return value >> 24 | (value >> 8 & 0xff00) | (value & 0xff00) << 8 |
	       value << 24;
}

u64 __bswapdi2(u64 value)
{
	return (u64)__bswapsi2((u32)value) << 32 |
	       __bswapsi2((u32)(value >> 32));
}

int __paritydi2(u64 value)
{
	for (u32 shift = 32; shift; shift /= 2)
		value ^= value >> shift;
	return value & 1;
}

/* Of a value that is not zero. */
int __ctzdi2(u64 value)
{
	int bits = 0;

	for (; !(value & 1); value >>= 1)
		bits++;
	return bits;
}

/* Addresses are physical: there is no translation. */
bool paging_map(u64 phys, u64 bytes)
{
	(void)phys;
	(void)bytes;
	return true;
}
