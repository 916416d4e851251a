/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by kernel/stop_machine.c: queues a work to the stopper of every CPU.
 *
 * stop_machine() cannot be called from an interrupt, because it sleeps for the
 * hotplug lock and for its own mutex. Two groups of works must be queued to all
 * CPUs in the same order, or the groups wait for each other forever. So
 * rem_park_lock is held while a group is queued, with interrupts off, since this
 * function runs in an interrupt. cpu_stop_queue_two_works() already retries while
 * stop_cpus_in_progress is set.
 */
#include "hooks.h"

static DEFINE_PER_CPU(struct cpu_stop_work, rem_park_work);

/**
 * rem_park_queue - run a function in the stopper thread of every online CPU
 * @fn: the function; a stopper runs only where no spinlock is held
 *
 * The caller guarantees that no earlier group is still running.
 *
 * Context: any, interrupts off.
 * Return: number of CPUs it was queued to.
 */
unsigned int rem_park_queue(cpu_stop_fn_t fn)
{
	unsigned int count = 0;
	struct cpu_stop_work *work;
	unsigned int cpu;

	raw_spin_lock(&rem_park_lock);
	stop_cpus_in_progress = true;
	barrier();
	for_each_online_cpu(cpu) {
		work = &per_cpu(rem_park_work, cpu);
		work->fn = fn;
		work->arg = NULL;
		work->done = NULL;
		work->caller = _RET_IP_;
		count += cpu_stop_queue_work(cpu, work);
	}
	barrier();
	stop_cpus_in_progress = false;
	raw_spin_unlock(&rem_park_lock);
	return count;
}
