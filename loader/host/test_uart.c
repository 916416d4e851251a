/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Errors of one line cost no byte of another. The driver is built here, for ports that
 * are played: a line has a byte with an error, which reading the status reports once.
 */
#include "check.h"

#define LOADER_IO_H /* in place of ../hw/io.h */
#include "../core/base.h"

#define LINES 4
#define WAITING_MAX 8
#define BREAK 0x10

static const u16 ports[LINES] = { 0x3f8, 0x2f8, 0x3e8, 0x2e8 };

static struct line {
	struct {
		u8 byte, errors;
	} waiting[WAITING_MAX];
	u32 count;
	u8 sent;
} lines[LINES];

static struct line *line_of(u16 port)
{
	for (u32 i = 0; i < LINES; i++)
		if ((port & ~7u) == ports[i])
			return &lines[i];
	CHECK(0, "port %x", port);
	return &lines[0];
}

static u8 in8(u16 port)
{
	struct line *line = line_of(port);
	u8 value;

	if ((port & 7) == 5) {
		value = (u8)(0x20 | !!line->count | line->waiting[0].errors);
		line->waiting[0].errors = 0;
		return value;
	}
	value = line->waiting[0].byte;
	for (u32 i = 1; i < WAITING_MAX; i++)
		line->waiting[i - 1] = line->waiting[i];
	line->waiting[WAITING_MAX - 1].errors = 0;
	line->count -= !!line->count;
	return value;
}

static void out8(u16 port, u8 value)
{
	if ((port & 7) == 0)
		line_of(port)->sent = value;
}

static void relax(void)
{
}

#include "../hw/uart.c"

static void receive(u32 n, u8 byte, u8 errors)
{
	struct line *line = &lines[n];

	line->waiting[line->count].byte = byte;
	line->waiting[line->count++].errors = errors;
}

/* Line @bad sends while its next byte is a break; then both have a good byte. */
static void error_is_of_its_line(u32 bad, u32 good)
{
	u8 byte = 0;

	memset(lines, 0, sizeof(lines));
	error_ports = 0;
	receive(bad, 0, BREAK);
	receive(bad, 'b', 0);
	receive(good, 'g', 0);
	CHECK(uart_put(ports[bad], 's') && lines[bad].sent == 's', "sent");
	CHECK(uart_get(ports[good], &byte) && byte == 'g',
	      "break on %x, the byte of %x is lost", ports[bad], ports[good]);
	CHECK(uart_get(ports[bad], &byte) && byte == 'b',
	      "break on %x is a byte: %x", ports[bad], byte);
	CHECK(!uart_get(ports[bad], &byte) && !uart_get(ports[good], &byte),
	      "no more bytes");
}

void test_uart(void)
{
	for (u32 bad = 0; bad < LINES; bad++)
		for (u32 good = 0; good < LINES; good++)
			if (good != bad)
				error_is_of_its_line(bad, good);
}
