// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-cpu: is every register that a program can hold kept?
 *
 * One thread a CPU, pinned. A round keeps numbers in registers only, for some
 * milliseconds (cpu_rounds.S of each instruction set), and is then compared with the
 * same arithmetic done in C (cpu_state.c there), with what the CPU says its number is.
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu_state.h"

static atomic_ullong rounds_total;
static atomic_bool stopping;

static void check_place(long cpu, unsigned long base)
{
	int cpu_now = sched_getcpu();

	if (cpu_now != cpu)
		check_fail("cpu=%ld is reported as %d", cpu, cpu_now);
	cpu_base_check(cpu, base);
}

static void *run(void *arg)
{
	struct cpu_state *is = cpu_state_alloc();
	struct cpu_state *should = cpu_state_alloc();
	long cpu = (long)arg;
	unsigned long base = (unsigned long)is;
	cpu_set_t set;

	if (!is || !should)
		check_fail("out of memory");
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		check_fail_errno("sched_setaffinity");
	cpu_base_set(base);
	for (uint64_t round = 0; !atomic_load(&stopping); round++) {
		cpu_state_make(is, round << 8 | (uint64_t)cpu);
		cpu_state_copy(should, is);
		cpu_round(is);
		cpu_expect(should);
		cpu_compare(is, should, cpu, round);
		check_place(cpu, base);
		atomic_fetch_add(&rounds_total, 1);
	}
	free(is);
	free(should);
	return NULL;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned long *threads;

	check_begin(argc, argv, NULL);
	threads = calloc((size_t)cpus, sizeof(*threads));
	if (!threads)
		check_fail("out of memory");
	for (long cpu = 0; cpu < cpus; cpu++)
		threads[cpu] = check_thread(run, (void *)cpu);
	while (check_go_on(atomic_load(&rounds_total))) {
		check_sleep_ns(20 * NS_PER_MS);
		if (check_asked())
			check_at("rounds=%llu", atomic_load(&rounds_total));
	}
	atomic_store(&stopping, true);
	for (long cpu = 0; cpu < cpus; cpu++)
		check_join(threads[cpu]);
	return check_ok("rounds=%llu cpus=%ld vectors=%s",
			atomic_load(&rounds_total), cpus, cpu_vectors());
}
