/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * COM1, polled, and the few library functions that compilers take for granted.
 */
#include "shim.h"

#define COM1 0x3f8

static void put_char(char c)
{
	while (!(in8(COM1 + 5) & 0x20))
		;
	out8(COM1, (uint8_t)c);
}

void put_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			put_char('\r');
		put_char(*text);
	}
}

void put_hex(uint64_t value)
{
	put_text("0x");
	for (int shift = 60; shift >= 0; shift -= 4)
		put_char("0123456789abcdef"[(value >> shift) & 15]);
}

void put_range(const char *what, uint64_t start, uint64_t end, const char *name)
{
	put_text("SHIM: ");
	put_text(what);
	put_text(" ");
	put_hex(start);
	put_text(" ");
	put_hex(end);
	put_text(" ");
	put_text(name);
	put_text("\n");
}

_Noreturn void stop(const char *reason)
{
	put_text("SHIM: stop: ");
	put_text(reason);
	put_text("\n");
	for (;;)
		__asm__ volatile("cli; hlt");
}

void *memset(void *to, int value, size_t bytes)
{
	void *at = to;

	__asm__ volatile("rep stosb"
			 : "+D"(at), "+c"(bytes)
			 : "a"(value)
			 : "memory");
	return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
	void *at = to;

	__asm__ volatile("rep movsb"
			 : "+D"(at), "+S"(from), "+c"(bytes)
			 :
			 : "memory");
	return to;
}
