// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bounded Stop: park every CPU where it may be stopped, forbid every device
 * to master the bus, save contexts, commit. No task is waited for, no request
 * is drained, no CPU unplugged; what is in flight is issued again by Go.
 *
 * How long it takes: the longest section of this kernel with preemption off
 * until all CPUs have arrived, then the steps of this file, each of which is
 * bounded by the number of CPUs and of PCI functions.
 *
 * Laws of this path, from rem_park() to the end of Go: nothing sleeps,
 * allocates or takes a mutex (a parked task may hold it); spinlocks are free,
 * since no CPU is parked with one held; nothing is printed.
 */
#include <linux/acpi.h>
#include <linux/bottom_half.h>
#include <linux/clockchips.h>
#include <linux/cpumask.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>
#include <asm/io_apic.h>
#include <asm/special_insns.h>
#include <asm/x86_init.h>
#include "../resume/resume.h"
#include "mutant.h"
#include "stop.h"

/**
 * struct rem_park - where each CPU is on its way through Stop and Go
 * @count: CPUs that take part
 * @arrived: stand in their stopper, interrupts still on, so that none waits
 *	for an answer of one that is here already
 * @quiet: have interrupts off
 * @saved: have their context in NVRAM
 * @woken: run again, interrupts off
 * @left: have seen @going; before all have, no next Stop may take it back
 * @devices_stopped: no DMA can come into a cache any more
 * @going: control lets all go on
 */
static struct {
	unsigned int count;
	atomic_t arrived;
	atomic_t quiet;
	atomic_t saved;
	atomic_t woken;
	atomic_t left;
	bool devices_stopped;
	bool going;
	int err;
} rem_park;

static void rem_park_wait(atomic_t *counter, unsigned int count)
{
	while (atomic_read(counter) < count)
		cpu_relax();
}

/* Context: one CPU, interrupts off, on the stack below its saved context. */
static int rem_park_halt(void *arg)
{
	struct rem_context *ctx = arg;

	/* Until its context is loaded, a starting CPU's stack is below it. */
	current->thread.sp = ctx->rsp;
	rem_event(REM_EVENT_STOP_CPU_SAVED, ctx->cpu);
	while (!READ_ONCE(rem_park.devices_stopped))
		cpu_relax();
	if (!rem_mutant("skip-other-flush"))
		wbinvd();
	/* This line is dirty again; control flushes it when all are here. */
	atomic_inc(&rem_park.saved);
	rem_halt();
}

/* A CPU other than the boot CPU. Control reappears in it after Go. */
static void rem_park_other(void)
{
	struct rem_context *ctx = &rem_contexts[smp_processor_id()];

	if (!rem_mutant("skip-context"))
		rem_context_save(ctx);
	rem_save_and_call(ctx, rem_park_halt, ctx);

	rem_cpu_restore(ctx);
	rem_apic_restore();
	rem_event(REM_EVENT_GO_CPU, ctx->cpu);
	atomic_inc(&rem_park.woken);
	while (!READ_ONCE(rem_park.going))
		cpu_relax();
	atomic_inc(&rem_park.left);
}

/*
 * Everything back, in the order of dependence. Also the way back of a Stop that
 * was refused after the park: then other CPUs are halted and devices cut off
 * just the same.
 *
 * Context: boot CPU alone, interrupts off.
 */
static void rem_fast_go(void)
{
	atomic_set(&rem_park.woken, 0);
	atomic_set(&rem_park.left, 0);
	rem_trampoline_restore();
	rem_apic_restore();
	rem_cpus_start();
	rem_interrupts_restore();
	rem_event(REM_EVENT_GO_SYSCORE, 0);
	rem_event(REM_EVENT_GO_DEVICES, rem_devices_go());
	rem_timekeeping_go(!rem_park.err);
	rem_entropy_reseed();
	rem_event(REM_EVENT_GO_ENTROPY, 0);
	rem_power_go(!rem_park.err);
	rem_park_wait(&rem_park.woken, rem_park.count - 1);
	rem_event(REM_EVENT_GO_CPUS, rem_park.count);
	WRITE_ONCE(rem_park.going, true);
	rem_park_wait(&rem_park.left, rem_park.count - 1);
}

/* The boot CPU. Control reappears in it after Go. */
static void rem_park_control(void)
{
	struct rem_context *ctx = &rem_contexts[smp_processor_id()];
	unsigned int devices = rem_devices_stop();

	WRITE_ONCE(rem_park.devices_stopped, true);
	rem_event(REM_EVENT_STOP_DEVICES, devices);
	rem_interrupts_save();
	rem_timekeeping_stop();
	x86_platform.save_sched_clock_state();
	rem_event(REM_EVENT_STOP_SYSCORE, 0);
	rem_park_wait(&rem_park.saved, rem_park.count - 1);
	rem_flush(&rem_park, sizeof(rem_park));
	rem_event(REM_EVENT_STOP_PARKED, rem_park.count);

	rem_context_save(ctx);
	rem_event(REM_EVENT_STOP_CPU_SAVED, 0);
	rem_park.err = rem_save_and_call(ctx, rem_record_commit, NULL);
	if (!rem_park.err) {
		rem_cpu_restore(ctx);
		x86_platform.restore_sched_clock_state();
		rem_went();
	}
	rem_fast_go();
}

/*
 * Run by each CPU's stopper thread.
 *
 * Soft interrupts stay off while CPUs gather: those that come in with the last
 * hard ones would run here, for milliseconds, in front of the Stop.
 */
static int rem_park_cpu(void *unused)
{
	local_bh_disable();
	atomic_inc(&rem_park.arrived);
	rem_park_wait(&rem_park.arrived, rem_park.count);
	local_irq_disable();
	atomic_inc(&rem_park.quiet);
	rem_park_wait(&rem_park.quiet, rem_park.count);

	if (smp_processor_id())
		rem_park_other();
	else
		rem_park_control();

	rem_tick_resume();
	rem_interrupts_repeat();
	local_irq_enable();
	local_bh_enable();
	if (!smp_processor_id())
		rem_thread_wake();
	return 0;
}

/**
 * rem_stop_fast - begin the bounded Stop
 *
 * Context: any. Return: nothing; rem_fast_finish() is called in the thread
 * after Go, or after the Stop was refused.
 */
void rem_stop_fast(void)
{
	unsigned long flags;

	local_irq_save(flags);
	atomic_set(&rem_park.arrived, 0);
	atomic_set(&rem_park.quiet, 0);
	atomic_set(&rem_park.saved, 0);
	WRITE_ONCE(rem_park.going, false);
	WRITE_ONCE(rem_park.devices_stopped, false);
	/* No hotplug while armed: what is online now is what gets queued. */
	rem_park.count = num_online_cpus();
	rem_park_queue(rem_park_cpu);
	local_irq_restore(flags);
}

/** rem_fast_error - Return: 0 after Go, or why the Stop was refused. */
int rem_fast_error(void)
{
	return rem_park.err;
}

/**
 * rem_fast_finish - the part of Go that may sleep; a Stop may begin meanwhile
 *
 * Context: process. Return: nothing.
 */
void rem_fast_finish(void)
{
	acpi_enable_all_runtime_gpes();
	rem_serial_finish();
	rem_devices_finish();
}
