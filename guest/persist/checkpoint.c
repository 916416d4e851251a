// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Checkpoints at the ends of functions, by the compiler's instrumentation: the
 * contender that LightPC calls A-CheckPC (section VI).
 *
 * GCC's -fsanitize=thread calls __tsan_write*() before each store that another
 * thread could see, and __tsan_func_exit() before each function returns. Here
 * they collect the lines of the program's state that have changed, and make
 * them durable, with its registers and its stack. Nothing is saved where
 * nothing has changed. After a power failure the program returns from the
 * function whose end was saved last.
 *
 * The file: a head, an image of the state, and two halves of a log. A
 * checkpoint is an entry of the current half: what changed, its number last.
 * When that half is full, what changed since it began goes into the image, the
 * stack into the other half's first entry, and the head's one word changes
 * halves. So a checkpoint is whole or it is not there, whenever the power fails.
 */
#include "check.h"
#include "persistent.h"
#include "work.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAGIC 0x31504b4345484352ULL
#define HEAD_BYTES 4096
#define IMAGE_BYTES (4UL << 20)
#define HALF_BYTES (8UL << 20)
#define FILE_BYTES (HEAD_BYTES + IMAGE_BYTES + 2 * HALF_BYTES)
#define LINES_MAX (IMAGE_BYTES / LINE_BYTES)
#define STACK_BYTES (256UL << 10)
#define NUMBERS_OF_A_RUN (1ULL << 40)

struct checkpoint_registers {
	uint64_t saved[6];
	uint64_t stack;
	uint64_t back;
};

int checkpoint_here(struct checkpoint_registers *registers)
	__attribute__((returns_twice));
_Noreturn void checkpoint_return(const struct checkpoint_registers *registers);
_Noreturn void checkpoint_on(void *stack, void (*run)(void));

struct head {
	uint64_t magic;
	uint64_t identity; /* of the program and its size */
	uint64_t current; /* number of a half's first entry, times 2, plus the half */
};

/* Followed by the stack and the lines, each after the padding to a line. */
struct entry {
	uint64_t number; /* written last */
	uint64_t line_count;
	uint64_t stack_bytes;
	uint64_t reserved[5];
	struct checkpoint_registers registers;
};

struct saved_line {
	uint64_t index;
	uint64_t reserved[7];
	uint8_t bytes[LINE_BYTES];
};

static_assert(sizeof(struct entry) == 2 * LINE_BYTES, "lines follow");
static_assert(sizeof(struct saved_line) == 2 * LINE_BYTES, "lines follow");

/* The program's variables: the Makefile puts them there. */
extern uint8_t __start_work_state[], __stop_work_state[];

static uint8_t stack[STACK_BYTES] __attribute__((aligned(4096)));
static uint8_t is_dirty[LINES_MAX], is_logged[LINES_MAX];
static uint32_t dirty[LINES_MAX], logged[LINES_MAX];
static uint64_t dirty_count, logged_count;

static struct head *head;
static uint8_t *image, *halves[2], *next;
static uint64_t number, half;
static uint64_t rounds, checkpoints, lines_saved;
static bool is_active;

static uint8_t *first_line(void)
{
	return (uint8_t *)((uintptr_t)__start_work_state &
			   ~(uintptr_t)(LINE_BYTES - 1));
}

static size_t state_bytes(void)
{
	return (size_t)(__stop_work_state - first_line());
}

/* The part of a line that is the program's. */
static size_t span(uint64_t index, uint8_t **ret_from)
{
	uint8_t *from = first_line() + index * LINE_BYTES;
	uint8_t *end = from + LINE_BYTES;

	*ret_from = from < __start_work_state ? __start_work_state : from;
	return (size_t)((end > __stop_work_state ? __stop_work_state : end) -
			*ret_from);
}

static void changes(const volatile void *at, size_t bytes)
{
	uintptr_t from = (uintptr_t)at - (uintptr_t)first_line();
	uint64_t last = (from + bytes - 1) / LINE_BYTES;

	if (from >= state_bytes())
		return; /* the stack, which is saved anyway */
	for (uint64_t line = from / LINE_BYTES; line <= last; line++) {
		if (is_dirty[line])
			continue;
		is_dirty[line] = 1;
		dirty[dirty_count++] = (uint32_t)line;
	}
}

static size_t padded(size_t bytes)
{
	return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static size_t entry_bytes(size_t stack_bytes, uint64_t line_count)
{
	return sizeof(struct entry) + padded(stack_bytes) +
	       line_count * sizeof(struct saved_line);
}

static struct saved_line *lines_of(struct entry *entry)
{
	return (struct saved_line *)((uint8_t *)(entry + 1) +
				     padded(entry->stack_bytes));
}

/* Its number makes an entry valid. */
static void commit(struct entry *entry, size_t bytes)
{
	persistent_write_back(entry, bytes);
	persistent_fence();
	entry->number = number;
	persistent_write_back(entry, LINE_BYTES);
	persistent_fence();
}

/* All that this half has is in the image afterwards. */
static void change_halves(const struct checkpoint_registers *registers,
			  const void *stack_from, size_t stack_bytes)
{
	struct entry *entry = (struct entry *)halves[!half];

	for (uint64_t i = 0; i < logged_count; i++) {
		uint8_t *from;
		size_t bytes = span(logged[i], &from);

		memcpy(image + (from - first_line()), from, bytes);
		persistent_write_back(image + (from - first_line()), bytes);
		is_logged[logged[i]] = 0;
	}
	logged_count = 0;
	persistent_fence();
	entry->number = 0;
	entry->line_count = 0;
	entry->stack_bytes = stack_bytes;
	entry->registers = *registers;
	memcpy(entry + 1, stack_from, stack_bytes);
	commit(entry, entry_bytes(stack_bytes, 0));
	half = !half;
	head->current = number << 1 | half;
	persistent_write_back(head, sizeof(*head));
	persistent_fence();
	next = halves[half] + entry_bytes(stack_bytes, 0);
}

static void save(void)
{
	struct entry *entry = (struct entry *)next;
	struct checkpoint_registers registers;
	struct saved_line *line;
	size_t stack_bytes, bytes;

	if (checkpoint_here(&registers))
		return; /* after a power failure */
	stack_bytes =
		(size_t)(stack + STACK_BYTES - (uint8_t *)registers.stack);
	bytes = entry_bytes(stack_bytes, dirty_count);
	number++;
	entry->number = 0;
	entry->line_count = dirty_count;
	entry->stack_bytes = stack_bytes;
	entry->registers = registers;
	memcpy(entry + 1, (void *)registers.stack, stack_bytes);
	line = lines_of(entry);
	for (uint64_t i = 0; i < dirty_count; i++, line++) {
		uint8_t *from;
		size_t count = span(dirty[i], &from);

		line->index = dirty[i];
		memcpy(line->bytes, from, count);
		is_dirty[dirty[i]] = 0;
		if (is_logged[dirty[i]])
			continue;
		is_logged[dirty[i]] = 1;
		logged[logged_count++] = dirty[i];
	}
	commit(entry, bytes);
	checkpoints++;
	lines_saved += dirty_count;
	dirty_count = 0;
	next += bytes;
	/* A half always has room for a whole state and a whole stack. */
	if (next + entry_bytes(STACK_BYTES, state_bytes() / LINE_BYTES + 1) >
	    halves[half] + HALF_BYTES)
		change_halves(&registers, (void *)registers.stack, stack_bytes);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
	if (is_active && dirty_count)
		save();
}

#define DEFINE_WRITE(name, bytes)     \
	void __tsan_##name(void *at); \
	void __tsan_##name(void *at)  \
	{                             \
		changes(at, bytes);   \
	}
DEFINE_WRITE(write1, 1)
DEFINE_WRITE(write2, 2)
DEFINE_WRITE(write4, 4)
DEFINE_WRITE(write8, 8)
DEFINE_WRITE(write16, 16)
DEFINE_WRITE(unaligned_write2, 2)
DEFINE_WRITE(unaligned_write4, 4)
DEFINE_WRITE(unaligned_write8, 8)
DEFINE_WRITE(unaligned_write16, 16)

void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes)
{
	changes(at, bytes);
}

static void run(void)
{
	uint64_t digest = work(rounds);

	is_active = false;
	exit(check_ok("digest=%llu checkpoints=%llu lines=%llu",
		      (unsigned long long)digest,
		      (unsigned long long)checkpoints,
		      (unsigned long long)lines_saved));
}

static struct entry *entry_at(uint8_t *at, uint64_t wanted)
{
	struct entry *entry = (struct entry *)at;

	if (at + sizeof(*entry) > halves[half] + HALF_BYTES ||
	    entry->number != wanted || entry->stack_bytes > STACK_BYTES ||
	    entry->line_count > LINES_MAX ||
	    at + entry_bytes(entry->stack_bytes, entry->line_count) >
		    halves[half] + HALF_BYTES)
		return NULL;
	return entry;
}

/* To the last checkpoint; returns if there is none yet. */
static void recover(void)
{
	static struct checkpoint_registers registers;
	int64_t begin_ns = check_now_ns(CLOCK_MONOTONIC);
	struct entry *entry, *last = NULL;
	uint8_t *at;

	half = head->current & 1;
	number = head->current >> 1;
	at = halves[half];
	if (!entry_at(at, number))
		return;
	for (uint64_t i = 0; i * LINE_BYTES < state_bytes(); i++) {
		uint8_t *from;
		size_t bytes = span(i, &from);

		memcpy(from, image + (from - first_line()), bytes);
	}
	while ((entry = entry_at(at, number))) {
		struct saved_line *line = lines_of(entry);

		for (uint64_t i = 0; i < entry->line_count; i++, line++) {
			uint8_t *from;
			size_t bytes;

			if (line->index >= padded(state_bytes()) / LINE_BYTES)
				check_fail("checkpoint %llu is damaged",
					   (unsigned long long)number);
			bytes = span(line->index, &from);
			memcpy(from, line->bytes, bytes);
			if (!is_logged[line->index]) {
				is_logged[line->index] = 1;
				logged[logged_count++] = (uint32_t)line->index;
			}
		}
		at += entry_bytes(entry->stack_bytes, entry->line_count);
		last = entry;
		number++;
	}
	number = last->number;
	registers = last->registers;
	memcpy(stack + STACK_BYTES - last->stack_bytes, last + 1,
	       last->stack_bytes);
	change_halves(&registers, last + 1, last->stack_bytes);
	is_active = true;
	check_at("recovered=%llu recover_ns=%lld", (unsigned long long)number,
		 (long long)(check_now_ns(CLOCK_MONOTONIC) - begin_ns));
	checkpoint_return(&registers);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", "file", "volatile",
					     NULL };
	uint64_t identity;
	uint8_t *at;

	check_begin(argc, argv, extra);
	rounds = check_number("rounds", 1);
	at = persistent_map(check_option("file", "/mnt/checkpoint"), FILE_BYTES,
			    check_number("volatile", 0) != 0);
	head = (struct head *)at;
	image = at + HEAD_BYTES;
	halves[0] = image + IMAGE_BYTES;
	halves[1] = halves[0] + HALF_BYTES;
	identity = work_mix(rounds) ^ check_crc32(work_name, strlen(work_name));
	if (state_bytes() > IMAGE_BYTES)
		check_fail("a state of over %lu bytes", IMAGE_BYTES);
	if (head->magic == MAGIC && head->identity == identity && head->current)
		recover();
	/*
	 * From the beginning. What an earlier run has left in the log has lower
	 * numbers, and is not taken for an entry.
	 */
	number = (head->current >> 1) + NUMBERS_OF_A_RUN;
	head->magic = 0;
	persistent_write_back(head, sizeof(*head));
	persistent_fence();
	memcpy(image + (__start_work_state - first_line()), __start_work_state,
	       (size_t)(__stop_work_state - __start_work_state));
	half = 0;
	next = halves[0];
	head->identity = identity;
	head->current = number << 1;
	persistent_write_back(at, HEAD_BYTES + IMAGE_BYTES);
	persistent_fence();
	head->magic = MAGIC;
	persistent_write_back(head, sizeof(*head));
	persistent_fence();
	number--;
	is_active = true;
	checkpoint_on(stack + STACK_BYTES, run);
}
