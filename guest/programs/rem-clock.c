// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-clock: is time honest?
 *
 * One thread a CPU reads MONOTONIC, MONOTONIC_RAW, BOOTTIME and REALTIME in
 * turn; none may ever be behind what any CPU has seen of it before (REALTIME
 * by no more than --realtime-back-ns, 0 if not given, which is for tests that
 * set it). Sleeps must not end early. SIGUSR1 prints the clocks, so that the
 * host can tell what a power cut did to each: MONOTONIC leaves the time
 * without power out, BOOTTIME has it in.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_NS (3 * NS_PER_MS)

static struct {
	int clock;
	const char *name;
	atomic_llong newest_ns;
	long long allowed_back_ns;
} clocks[] = {
	{ .clock = CLOCK_MONOTONIC, .name = "MONOTONIC" },
	{ .clock = CLOCK_MONOTONIC_RAW, .name = "MONOTONIC_RAW" },
	{ .clock = CLOCK_BOOTTIME, .name = "BOOTTIME" },
	{ .clock = CLOCK_REALTIME, .name = "REALTIME" },
};
#define CLOCKS (sizeof(clocks) / sizeof(clocks[0]))

static atomic_ullong samples;
static atomic_llong gap_max_ns;
static atomic_bool stopping;

static void raise_to(atomic_llong *what, long long value)
{
	long long old = atomic_load(what);

	while (old < value && !atomic_compare_exchange_weak(what, &old, value))
		;
}

static void sample(size_t i)
{
	long long before_ns = atomic_load(&clocks[i].newest_ns);
	long long now_ns = check_now_ns(clocks[i].clock);

	if (now_ns < before_ns - clocks[i].allowed_back_ns)
		check_fail("%s went back by %lld ns", clocks[i].name,
			   before_ns - now_ns);
	if (!i && before_ns)
		raise_to(&gap_max_ns, now_ns - before_ns);
	raise_to(&clocks[i].newest_ns, now_ns);
	atomic_fetch_add(&samples, 1);
}

static void sleep_once(void)
{
	int64_t target_ns = check_now_ns(CLOCK_MONOTONIC) + SLEEP_NS;
	struct timespec target = { .tv_sec = target_ns / NS_PER_S,
				   .tv_nsec = target_ns % NS_PER_S };

	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &target, NULL))
		check_fail("clock_nanosleep failed");
	if (check_now_ns(CLOCK_MONOTONIC) < target_ns)
		check_fail("a sleep ended early");
}

static void *run(void *arg)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)(long)arg, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		check_fail_errno("sched_setaffinity");
	while (!atomic_load(&stopping)) {
		for (int i = 0; i < 1000; i++)
			for (size_t clock = 0; clock < CLOCKS; clock++)
				sample(clock);
		sleep_once();
	}
	return NULL;
}

static void tell(void)
{
	check_at("monotonic_ns=%lld boottime_ns=%lld realtime_ns=%lld "
		 "gap_max_ns=%lld samples=%llu",
		 (long long)check_now_ns(CLOCK_MONOTONIC),
		 (long long)check_now_ns(CLOCK_BOOTTIME),
		 (long long)check_now_ns(CLOCK_REALTIME),
		 atomic_load(&gap_max_ns), atomic_load(&samples));
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "realtime-back-ns", NULL };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned long *threads;

	check_begin(argc, argv, extra);
	clocks[3].allowed_back_ns =
		(long long)check_number("realtime-back-ns", 0);
	threads = calloc((size_t)cpus, sizeof(*threads));
	if (!threads)
		check_fail("out of memory");
	for (long cpu = 0; cpu < cpus; cpu++)
		threads[cpu] = check_thread(run, (void *)cpu);
	while (check_go_on(atomic_load(&samples))) {
		check_sleep_ns(10 * NS_PER_MS);
		if (check_asked())
			tell();
	}
	atomic_store(&stopping, true);
	for (long cpu = 0; cpu < cpus; cpu++)
		check_join(threads[cpu]);
	return check_ok("samples=%llu gap_max_ns=%lld", atomic_load(&samples),
			atomic_load(&gap_max_ns));
}
