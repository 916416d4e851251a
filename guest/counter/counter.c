// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A guest that is all of its machine: it counts on COM1 and checks its memory.
 *
 * Each count is of a part of the memory: that has what was written into it one turn ago, and
 * gets new content. Where it has not, the guest says so and stops. There is no stack, no table
 * and no timer that it would need to go on but what it finds where it left it.
 */
#include <stdint.h>

#define COM1 0x3f8
#define LINE_STATUS (COM1 + 5)
#define CAN_SEND 0x20

#define PARTS 64u
#define PART_WORDS (16u << 10)

static uint32_t *const memory = (uint32_t *)0x200000;

static void out8(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static uint8_t in8(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static void put(char c)
{
	while (!(in8(LINE_STATUS) & CAN_SEND))
		;
	out8(COM1, (uint8_t)c);
}

static void say(const char *text, uint32_t number)
{
	char digits[10];
	int count = 0;

	while (*text)
		put(*text++);
	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		put(digits[--count]);
	put('.');
	put('\r');
	put('\n');
}

/* The content of a part after so many turns: xorshift, whose period is all numbers but 0. */
static uint32_t next(uint32_t word)
{
	word ^= word << 13;
	word ^= word >> 17;
	return word ^ word << 5;
}

static uint32_t first(uint32_t part, uint32_t turns)
{
	return next(turns * PARTS + part + 1);
}

static void fill(uint32_t part, uint32_t turns)
{
	volatile uint32_t *words = memory + part * PART_WORDS;
	uint32_t word = first(part, turns);

	for (uint32_t i = 0; i < PART_WORDS; i++, word = next(word))
		words[i] = word;
}

static int is_right(uint32_t part, uint32_t turns)
{
	volatile uint32_t *words = memory + part * PART_WORDS;
	uint32_t word = first(part, turns);

	for (uint32_t i = 0; i < PART_WORDS; i++, word = next(word))
		if (words[i] != word)
			return 0;
	return 1;
}

void count(void)
{
	for (uint32_t part = 0; part < PARTS; part++)
		fill(part, 0);
	for (uint32_t n = 1;; n++) {
		uint32_t part = n % PARTS, turns = n / PARTS;

		if (!is_right(part, turns ? turns - 1 : 0))
			break;
		fill(part, turns);
		say("guest count ", n);
	}
	say("memory differs at ", 0);
	for (;;)
		__asm__ volatile("hlt");
}
