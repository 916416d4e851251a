// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bounded Stop: park every CPU where it may be stopped, forbid every device
 * to master the bus, save contexts, commit. It waits for no task, drains no
 * request and unplugs no CPU; Go issues again what is in flight.
 *
 * Its duration: the longest section of this kernel with preemption off, until
 * all CPUs have arrived; then the steps of this file, each of which is bounded
 * by the number of CPUs and of PCI functions.
 *
 * Laws of this path, from rem_park_cpu() to the end of Go: nothing sleeps,
 * allocates or takes a mutex, which a parked task may hold; spinlocks are free,
 * since no CPU is parked while it holds one; nothing is printed.
 */
#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/smp.h>
#include "../hooks/hooks.h"
#include "stop.h"

/**
 * struct rem_park - progress of the CPUs on their way into a Stop
 * @count: CPUs that take part
 * @arrived: CPUs in their stopper thread, with interrupts still on: a CPU that
 *	is not here yet may wait for an IPI to be answered
 * @quiet: CPUs that have interrupts off
 * @devices_stopped: no DMA can reach a cache any more
 * @refused: 0, or why nothing is stopped: -EOPNOTSUPP if a CPU is in a mode that Go
 *	cannot restore, -EAGAIN if another path is the right one by now
 * @err: why the last Stop was refused, or 0
 * @flushed: CPUs other than the boot CPU that have written back their caches, in
 *	a line of its own: a CPU that still waits for @devices_stopped must not
 *	get that line from one that has finished
 */
static struct rem_park {
	unsigned int count;
	atomic_t arrived;
	atomic_t quiet;
	bool devices_stopped;
	int refused;
	int err;
	atomic_t flushed ____cacheline_aligned;
} rem_park;

/* From the beginning of a Stop until all CPUs are in it. */
bool rem_cpus_gather __read_mostly;

static void rem_park_wait(atomic_t *counter, unsigned int count)
{
	while (atomic_read(counter) < count)
		cpu_relax();
}

/* Context: one CPU, interrupts off, on the stack below its saved context. */
static int rem_park_halt(void *arg)
{
	struct rem_context *ctx = arg;

	rem_context_parked(ctx);
	rem_event(REM_EVENT_STOP_CPU_SAVED, ctx->cpu);
	while (!READ_ONCE(rem_park.devices_stopped))
		cpu_relax();
	rem_mixed_stop();
	rem_quiet_begin();
	rem_caches_write_back();
	/* The one store after it; the boot CPU flushes its line. */
	atomic_inc(&rem_park.flushed);
	rem_halt();
}

/* A CPU other than the boot CPU. It returns here after Go. */
static void rem_park_other(void)
{
	struct rem_context *ctx = &rem_contexts[smp_processor_id()];

	rem_context_save(ctx);
	rem_save_and_call(ctx, rem_park_halt, ctx);
	rem_quiet_end(ctx);
	rem_go_cpu(ctx);
}

/*
 * All CPUs write back their caches at the same time, so a Stop takes as long as
 * the slowest of them. Context: boot CPU, on the stack below its saved context.
 */
static int rem_park_commit(void *unused)
{
	rem_mixed_stop();
	rem_quiet_begin();
	rem_caches_write_back();
	rem_park_wait(&rem_park.flushed, rem_park.count - 1);
	rem_flush(&rem_park.flushed, sizeof(rem_park.flushed));
	rem_mixed_stopped();
	rem_event(REM_EVENT_STOP_PARKED, rem_park.count);
	return rem_record_commit();
}

/* The boot CPU. It returns here after Go. */
static void rem_park_control(void)
{
	struct rem_context *ctx = &rem_contexts[smp_processor_id()];
	bool fast = rem.running_mode == REM_MODE_FAST;
	unsigned int devices = fast ? rem_devices_stop() : 0;

	WRITE_ONCE(rem_park.devices_stopped, true);
	if (fast) /* else drivers have suspended them */
		rem_event(REM_EVENT_STOP_DEVICES, devices);
	rem_interrupts_save();
	rem_platform_save();
	rem_timekeeping_stop();
	rem_sched_clock_stop();
	rem_event(REM_EVENT_STOP_SYSCORE, 0);

	rem_context_save(ctx);
	rem_event(REM_EVENT_STOP_CPU_SAVED, 0);
	rem_park.err = rem_save_and_call(ctx, rem_park_commit, NULL);
	rem_quiet_end(ctx);
	/* After an error, too: CPUs and devices are stopped in either case. */
	rem_go(!rem_park.err);
}

/* Context: all CPUs have interrupts off, and nothing is stopped yet. */
static void rem_park_once(void)
{
	int refused = READ_ONCE(rem_park.refused);

	if (refused) {
		rem_park.err = refused;
		return;
	}
	if (smp_processor_id())
		rem_park_other();
	else
		rem_park_control();
	rem_go_cpu_finish();
}

/*
 * Run by the stopper thread of each CPU.
 *
 * Soft interrupts stay off while the CPUs gather: those raised by the last hard
 * interrupts would run here, for milliseconds, and delay the Stop.
 */
static int rem_park_cpu(void *unused)
{
	local_bh_disable();
	atomic_inc(&rem_park.arrived);
	rem_park_wait(&rem_park.arrived, rem_park.count);
	WRITE_ONCE(rem_cpus_gather, false);
	local_irq_disable();
	/* Here, as nobody tells when a CPU enters such a mode. */
	if (rem_cpu_refused())
		WRITE_ONCE(rem_park.refused, -EOPNOTSUPP);
	/* It has changed while the CPUs gathered; no task runs any more. */
	else if (rem.running_mode == REM_MODE_FAST &&
		 READ_ONCE(rem.stop_mode) != REM_MODE_FAST)
		WRITE_ONCE(rem_park.refused, -EAGAIN);
	atomic_inc(&rem_park.quiet);
	rem_park_wait(&rem_park.quiet, rem_park.count);
	rem_park_once();
	local_irq_enable();
	local_bh_enable();
	if (!smp_processor_id())
		rem_thread_wake();
	return 0;
}

/**
 * rem_stop_fast - begin the bounded Stop, or the CPUs' part of stop=sng
 *
 * The thread calls rem_fast_error() after Go or after the Stop was refused.
 *
 * Context: any.
 */
void rem_stop_fast(void)
{
	unsigned long flags;

	local_irq_save(flags);
	atomic_set(&rem_park.arrived, 0);
	atomic_set(&rem_park.quiet, 0);
	atomic_set(&rem_park.flushed, 0);
	WRITE_ONCE(rem_park.devices_stopped, false);
	WRITE_ONCE(rem_park.refused, 0);
	rem_mixed_stop_begin();
	/* No hotplug while armed: a work is queued to each online CPU. */
	rem_park.count = num_online_cpus();
	WRITE_ONCE(rem_cpus_gather, true);
	rem_park_queue(rem_park_cpu);
	local_irq_restore(flags);
}

/** rem_fast_error - Return: 0 after Go, or why the Stop was refused. */
int rem_fast_error(void)
{
	return rem_park.err;
}
