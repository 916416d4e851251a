/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by kernel/stop_machine.c, whose queues it needs.
 *
 * stop_machine() cannot be called from an interrupt: it sleeps for the hotplug
 * lock and for its own mutex. Here works of our own are queued to every CPU's
 * stopper. Two groups must be queued to all CPUs in the same order, or each
 * waits for the other for ever; rem_park_lock makes the queueing of a group one
 * act, with interrupts off so that ours cannot come in between on the CPU that
 * queues. cpu_stop_queue_two_works() already steps back while
 * stop_cpus_in_progress is set.
 */

static DEFINE_PER_CPU(struct cpu_stop_work, rem_park_work);

/**
 * rem_park_queue - have every online CPU run a function where it may be stopped
 * @fn: run by each CPU's stopper thread, that is where no spinlock is held
 *
 * The caller guarantees that no earlier group is still running.
 *
 * Context: any, interrupts off. Return: how many CPUs it was queued to.
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
