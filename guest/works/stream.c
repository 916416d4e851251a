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
#include "team.h"

#include <math.h>
#include <time.h>

#pragma GCC optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns")

#define KERNELS 4
#define SCALAR 3.0
#define TOLERANCE 1e-12

static double *a, *b, *c;
static long elements, times;
static int64_t took_ns[KERNELS];

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

static void run(long number)
{
	long meeting = 0;
	long from = team_share(elements, number);
	long to = team_share(elements, number + 1);

	for (long i = from; i < to; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	for (long time = 0; time <= times; time++)
		for (int kernel = 0; kernel < KERNELS; kernel++) {
			int64_t begin_ns, ns;

			team_meet(&meeting);
			begin_ns = check_now_ns(CLOCK_MONOTONIC);
			kernels[kernel](from, to);
			team_meet(&meeting);
			ns = check_now_ns(CLOCK_MONOTONIC) - begin_ns;
			if (!number && time && ns < took_ns[kernel])
				took_ns[kernel] = ns;
		}
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
	long threads;

	check_begin(argc, argv, extra);
	elements = (long)check_number("elements", 1 << 17);
	times = (long)check_number("times", 3);
	threads = (long)check_number("threads", 1);
	if (elements < threads || !times)
		check_fail("an element for each thread, and a time");
	a = works_doubles(elements);
	b = works_doubles(elements);
	c = works_doubles(elements);
	for (int kernel = 0; kernel < KERNELS; kernel++)
		took_ns[kernel] = INT64_MAX;
	team_run(threads, run);
	if (check_number("planted", 0))
		b[elements / 2]++;
	check();
	return check_ok(
		"elements=%ld copy_ns=%lld scale_ns=%lld add_ns=%lld triad_ns=%lld",
		elements, (long long)took_ns[0], (long long)took_ns[1],
		(long long)took_ns[2], (long long)took_ns[3]);
}
