// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * STREAM's four kernels (McCalpin 1995): bandwidth of memory, on --threads CPUs.
 *
 *	copy c = a, scale b = 3 c, add c = a + b, triad a = b + 3 c
 *
 * Each runs --times times over arrays of --elements doubles, after a run that is
 * not counted, and its fastest counts, by the guest's clock. Loops are of scalar
 * accesses, as on cores without vectors. Checked: every element, at the end.
 */
#include "works.h"

#include <math.h>
#include <sched.h>
#include <time.h>

#pragma GCC optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns")

#define KERNELS 4
#define SCALAR 3.0
#define THREADS_MAX 64
#define TOLERANCE 1e-12

static double *a, *b, *c;
static long elements, times, threads;
static int64_t took_ns[KERNELS];
static long arrived;

static void copy(long from, long to)
{
	for (long i = from; i < to; i++)
		c[i] = a[i];
}

static void scale(long from, long to)
{
	for (long i = from; i < to; i++)
		b[i] = SCALAR * c[i];
}

static void add(long from, long to)
{
	for (long i = from; i < to; i++)
		c[i] = a[i] + b[i];
}

static void triad(long from, long to)
{
	for (long i = from; i < to; i++)
		a[i] = b[i] + SCALAR * c[i];
}

static void (*const kernels[KERNELS])(long, long) = { copy, scale, add, triad };

/* All threads have come here so often. PAUSE: others' turns come at once. */
static void meet(long *meeting)
{
	++*meeting;
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < *meeting * threads)
		__builtin_ia32_pause();
}

static void *run(void *arg)
{
	long number = (long)arg, meeting = 0;
	long from = elements * number / threads;
	long to = elements * (number + 1) / threads;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)number, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		check_fail_errno("sched_setaffinity");
	for (long i = from; i < to; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	for (long time = 0; time <= times; time++)
		for (int kernel = 0; kernel < KERNELS; kernel++) {
			int64_t begin_ns, ns;

			meet(&meeting);
			begin_ns = check_now_ns(CLOCK_MONOTONIC);
			kernels[kernel](from, to);
			meet(&meeting);
			ns = check_now_ns(CLOCK_MONOTONIC) - begin_ns;
			if (!number && time && ns < took_ns[kernel])
				took_ns[kernel] = ns;
		}
	return NULL;
}

static void check(void)
{
	double one = 1, two = 2, three = 0;

	for (long time = 0; time <= times; time++) {
		three = one;
		two = SCALAR * three;
		three = one + two;
		one = two + SCALAR * three;
	}
	for (long i = 0; i < elements; i++)
		if (fabs(a[i] / one - 1) > TOLERANCE ||
		    fabs(b[i] / two - 1) > TOLERANCE ||
		    fabs(c[i] / three - 1) > TOLERANCE)
			check_fail("element %ld: %g %g %g", i, a[i], b[i],
				   c[i]);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "elements", "times", "threads",
					     "planted", NULL };
	unsigned long ids[THREADS_MAX];

	check_begin(argc, argv, extra);
	elements = (long)check_number("elements", 1 << 17);
	times = (long)check_number("times", 3);
	threads = (long)check_number("threads", 1);
	if (threads < 1 || threads > THREADS_MAX || elements < threads ||
	    !times)
		check_fail("1 to %d threads, as many elements, a time",
			   THREADS_MAX);
	a = works_doubles(elements);
	b = works_doubles(elements);
	c = works_doubles(elements);
	for (int kernel = 0; kernel < KERNELS; kernel++)
		took_ns[kernel] = INT64_MAX;
	for (long i = 0; i < threads; i++)
		ids[i] = check_thread(run, (void *)i);
	for (long i = 0; i < threads; i++)
		check_join(ids[i]);
	if (check_number("planted", 0))
		b[elements / 2]++;
	check();
	return check_ok(
		"elements=%ld copy_ns=%lld scale_ns=%lld add_ns=%lld triad_ns=%lld",
		elements, (long long)took_ns[0], (long long)took_ns[1],
		(long long)took_ns[2], (long long)took_ns[3]);
}
