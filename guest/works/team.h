/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads that share a program's work, each on a CPU of its own, and meet after
 * each part of it. The results do not depend on their number but for rounding.
 */
#ifndef TEAM_H
#define TEAM_H

#include "works.h"

#include <sched.h>

#define TEAM_MAX 64

static long team_threads = 1;
static long team_arrived;
static cpu_set_t team_cpus;
static void (*team_work)(long number);

/* All have come here so often. PAUSE: others' turns come at once. */
static inline void team_meet(long *meeting)
{
	++*meeting;
	__atomic_add_fetch(&team_arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&team_arrived, __ATOMIC_SEQ_CST) <
	       *meeting * team_threads)
		__builtin_ia32_pause();
}

/* Where a thread's share of the places begins; it ends at the next one's. */
static inline long team_share(long places, long number)
{
	return places * number / team_threads;
}

/* Of the CPUs that the program may use one each, as long as there are some. */
static inline void team_stay_on_cpu(long number)
{
	long left = number % CPU_COUNT(&team_cpus);
	size_t cpu = 0;
	cpu_set_t one;

	while (!CPU_ISSET(cpu, &team_cpus) || left--)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		check_fail_errno("sched_setaffinity");
}

static inline void *team_start(void *arg)
{
	long number = (long)arg;

	team_stay_on_cpu(number);
	team_work(number);
	return NULL;
}

/* Runs @work on so many threads, each of which has its number, to its end. */
static inline void team_run(long threads, void (*work)(long number))
{
	unsigned long ids[TEAM_MAX];

	if (threads < 1 || threads > TEAM_MAX)
		check_fail("1 to %d threads", TEAM_MAX);
	if (sched_getaffinity(0, sizeof(team_cpus), &team_cpus))
		check_fail_errno("sched_getaffinity");
	team_threads = threads;
	team_work = work;
	for (long i = 0; i < threads; i++)
		ids[i] = check_thread(team_start, (void *)i);
	for (long i = 0; i < threads; i++)
		check_join(ids[i]);
}

#endif /* TEAM_H */
