// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-latency: what memory takes on the guest's own clock.
 *
 * Each of --threads threads, on a CPU of its own, follows a chain through
 * --bytes of memory, one line after another in an order without a pattern, so
 * that each load waits for the one before. It counts itself what it loads, and
 * the chain's end is known: a wrong load is a failure.
 *
 * Before that, one thread jumps through as much code, a jump in each line, in an
 * order without a pattern: fetch_ps is the time of one jump.
 *
 * load_ps is the time of a load in the thread that took longest, wall_ps the
 * time from the first thread's begin to the last one's end, for each load of
 * one thread. sleep_ns is what a sleep of 100 ms took.
 */
#include "../check.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 64
#define UNROLLED 8
#define THREADS_MAX 64
#define SLEEP_NS (100 * NS_PER_MS)

struct line {
	struct line *next;
	uint64_t number;
	uint8_t rest[LINE_BYTES - sizeof(void *) - sizeof(uint64_t)];
};

struct chain {
	struct line *lines;
	int cpu;
	int64_t begin_ns;
	int64_t end_ns;
};

static uint64_t line_count, load_count;
static int threads, ready;

/* All lines, in an order without a pattern. */
static uint64_t *make_order(uint64_t seed)
{
	uint64_t *order = calloc(line_count, sizeof(*order));

	if (!order)
		check_fail("out of memory");
	for (uint64_t i = 0; i < line_count; i++)
		order[i] = i;
	for (uint64_t i = line_count - 1; i > 0; i--) {
		uint64_t other = check_mix(seed + i) % (i + 1);
		uint64_t kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
	return order;
}

static struct line *make_chain(uint64_t seed)
{
	struct line *lines = aligned_alloc(4096, line_count * LINE_BYTES);
	uint64_t *order = make_order(seed);

	if (!lines)
		check_fail("out of memory");
	for (uint64_t i = 0; i < line_count; i++) {
		lines[order[i]].next = &lines[order[(i + 1) % line_count]];
		lines[order[i]].number = i;
	}
	free(order);
	return lines;
}

/* A jump from each line to the next; the last one returns. */
static void (*make_code(void))(void)
{
	static const uint8_t jump = 0xe9, back = 0xc3;
	uint64_t *order = make_order(0);
	uint8_t *code = mmap(NULL, line_count * LINE_BYTES,
			     PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		check_fail_errno("mmap");
	for (uint64_t i = 0; i + 1 < line_count; i++) {
		uint8_t *at = code + order[i] * LINE_BYTES;
		int32_t by = (int32_t)((int64_t)(order[i + 1] - order[i]) *
				       LINE_BYTES) -
			     5;

		memcpy(at, &jump, 1);
		memcpy(at + 1, &by, sizeof(by));
	}
	memcpy(code + order[line_count - 1] * LINE_BYTES, &back, 1);
	code += order[0] * LINE_BYTES;
	free(order);
	return (void (*)(void))code;
}

static int64_t measure_fetch_ps(void)
{
	uint64_t rounds = load_count / line_count + 1;
	void (*code)(void) = make_code();
	int64_t begin_ns;

	code();
	begin_ns = check_now_ns(CLOCK_MONOTONIC);
	for (uint64_t i = 0; i < rounds; i++)
		code();
	return (check_now_ns(CLOCK_MONOTONIC) - begin_ns) * 1000 /
	       (int64_t)(rounds * line_count);
}

/* @loads loads, a multiple of UNROLLED: 1 + 2 / UNROLLED instructions each. */
static struct line *follow(struct line *at, uint64_t loads)
{
	loads /= UNROLLED;
	if (!loads)
		return at;
	__asm__ volatile("1:\n\t"
			 "mov (%0), %0\n\tmov (%0), %0\n\t"
			 "mov (%0), %0\n\tmov (%0), %0\n\t"
			 "mov (%0), %0\n\tmov (%0), %0\n\t"
			 "mov (%0), %0\n\tmov (%0), %0\n\t"
			 "dec %1\n\tjnz 1b"
			 : "+r"(at), "+r"(loads)
			 :
			 : "memory", "cc");
	return at;
}

static void *run(void *arg)
{
	struct chain *chain = arg;
	struct line *begin = chain->lines, *end;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)chain->cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		check_fail_errno("sched_setaffinity");
	begin = follow(begin, line_count / UNROLLED * UNROLLED);
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < threads)
		sched_yield();
	chain->begin_ns = check_now_ns(CLOCK_MONOTONIC);
	end = follow(begin, load_count);
	chain->end_ns = check_now_ns(CLOCK_MONOTONIC);
	if (end->number != (begin->number + load_count) % line_count)
		check_fail("the chain ends at %llu",
			   (unsigned long long)end->number);
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "bytes", "loads", "threads",
					     NULL };
	static struct chain chains[THREADS_MAX];
	static unsigned long ids[THREADS_MAX];
	int64_t begin_ns = INT64_MAX, end_ns = 0, longest_ns = 0, sleep_ns;
	int64_t fetch_ps;
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t bytes;

	check_begin(argc, argv, extra);
	bytes = check_number("bytes", 4 << 20);
	load_count = check_number("loads", 100000) / UNROLLED * UNROLLED;
	threads = (int)check_number("threads", 1);
	if (bytes < 16 * LINE_BYTES || bytes % LINE_BYTES || !load_count)
		check_fail(
			"--bytes: whole lines, 1024 or more; --loads: 8 or more");
	if (threads < 1 || threads > THREADS_MAX)
		check_fail("--threads must be 1 to %d", THREADS_MAX);
	line_count = bytes / LINE_BYTES;
	sleep_ns = check_now_ns(CLOCK_MONOTONIC);
	check_sleep_ns(SLEEP_NS);
	sleep_ns = check_now_ns(CLOCK_MONOTONIC) - sleep_ns;
	fetch_ps = measure_fetch_ps();
	for (int i = 0; i < threads; i++) {
		chains[i].lines = make_chain((uint64_t)i << 32);
		chains[i].cpu = i % cpus;
		ids[i] = check_thread(run, &chains[i]);
	}
	for (int i = 0; i < threads; i++) {
		int64_t took_ns;

		check_join(ids[i]);
		took_ns = chains[i].end_ns - chains[i].begin_ns;
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
		if (chains[i].begin_ns < begin_ns)
			begin_ns = chains[i].begin_ns;
		if (chains[i].end_ns > end_ns)
			end_ns = chains[i].end_ns;
	}
	return check_ok(
		"bytes=%llu threads=%d fetch_ps=%lld load_ps=%lld wall_ps=%lld sleep_ns=%lld",
		(unsigned long long)bytes, threads, (long long)fetch_ps,
		(long long)longest_ns * 1000 / (long long)load_count,
		(long long)(end_ns - begin_ns) * 1000 / (long long)load_count,
		(long long)sleep_ns);
}
