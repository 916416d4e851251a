/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Functions that the compiler may call. */
#include "../core/base.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
	void *at = to;
	size_t words = bytes / 8;

	__asm__ volatile("rep movsq"
			 : "+D"(at), "+S"(from), "+c"(words)
			 :
			 : "memory");
	bytes &= 7;
	__asm__ volatile("rep movsb"
			 : "+D"(at), "+S"(from), "+c"(bytes)
			 :
			 : "memory");
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
	void *at = to;
	size_t words = bytes / 8;
	u64 pattern = (u8)value * 0x0101010101010101ull;

	__asm__ volatile("rep stosq"
			 : "+D"(at), "+c"(words)
			 : "a"(pattern)
			 : "memory");
	bytes &= 7;
	__asm__ volatile("rep stosb"
			 : "+D"(at), "+c"(bytes)
			 : "a"(pattern)
			 : "memory");
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
