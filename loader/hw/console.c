/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "console.h"

#include <stdarg.h>

#include "io.h"
#include "uart.h"

#define COM1 0x3f8

static bool there;

void console_open(void)
{
	there = uart_open(COM1);
}

bool console_get(u8 *ret_byte)
{
	return there && uart_get(COM1, ret_byte);
}

static void put(char c)
{
	if (there && !uart_put(COM1, (u8)c))
		there = false;
}

static void put_text(const char *text)
{
	while (*text)
		put(*text++);
}

static void put_number(u64 value, u32 base)
{
	char digits[20];
	u32 count = 0;

	do {
		digits[count++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (count)
		put(digits[--count]);
}

static void say_list(const char *format, va_list list)
{
	put_text("GO: ");
	for (; *format; format++) {
		if (*format != '%') {
			put(*format);
			continue;
		}
		switch (*++format) {
		case 's':
			put_text(va_arg(list, const char *));
			break;
		case 'u':
			put_number(va_arg(list, u32), 10);
			break;
		case 'l':
			/* %lu and %lx, as the compiler checks them. */
			put_number(va_arg(list, u64),
				   *++format == 'x' ? 16 : 10);
			break;
		case 'x':
			put_number(va_arg(list, u32), 16);
			break;
		default:
			return;
		}
	}
	put_text("\r\n");
}

void print(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say_list(format, list);
	va_end(list);
}

_Noreturn void die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say_list(format, list);
	va_end(list);
	halt();
}
