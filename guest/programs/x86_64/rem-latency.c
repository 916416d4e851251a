// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-latency: what memory takes on the guest's own clock.
 *
 * Each of --threads threads, on a CPU of its own, follows a chain through
 * --bytes of memory, one line after another in an order without a pattern, so
 * that each load waits for the one before. It counts itself what it loads, and
 * the chain's end is known: a wrong load is a failure.
 *
 * load_ps is the time of a load in the thread that took longest, wall_ps the
 * time from the first thread's begin to the last one's end, for each load of
 * one thread. sleep_ns is what a sleep of 100 ms took.
 */
#include "../check.h"

#include <sched.h>
#include <stdlib.h>
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

static struct line *make_chain(uint64_t seed)
{
	struct line *lines = aligned_alloc(4096, line_count * LINE_BYTES);
	uint64_t *order = calloc(line_count, sizeof(*order));

	if (!lines || !order)
		check_fail("out of memory");
	for (uint64_t i = 0; i < line_count; i++)
		order[i] = i;
	for (uint64_t i = line_count - 1; i > 0; i--) {
		uint64_t other = check_mix(seed + i) % (i + 1);
		uint64_t kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
	for (uint64_t i = 0; i < line_count; i++) {
		lines[order[i]].next = &lines[order[(i + 1) % line_count]];
		lines[order[i]].number = i;
	}
	free(order);
	return lines;
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
		"bytes=%llu threads=%d load_ps=%lld wall_ps=%lld sleep_ns=%lld",
		(unsigned long long)bytes, threads,
		(long long)longest_ns * 1000 / (long long)load_count,
		(long long)(end_ns - begin_ns) * 1000 / (long long)load_count,
		(long long)sleep_ns);
}
