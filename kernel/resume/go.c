// SPDX-License-Identifier: GPL-2.0-only
/*
 * The order of Go.
 *
 * The loader jumps to rem_go_entry (entry_64.S), which loads the context of the
 * boot CPU and returns into the thread that Stop had parked. That thread calls
 * rem_go(); the other CPUs come back through rem_go_cpu(). The laws of Stop
 * (stop/fast.c) hold until rem_go_cpu_finish() has enabled interrupts: nothing
 * sleeps, allocates, takes a mutex or prints.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/smp.h>
#include "../hooks/hooks.h"
#include "../machine.h"
#include "resume.h"

/*
 * A CPU starts in less than a millisecond. One that has missed its SIPI gets
 * another one after this time, and is lost after so many. Before the image is given
 * up, a busy host of a virtual machine has had seconds to run its CPUs.
 */
#define REM_CPU_START_MS 50
#define REM_CPU_STARTS_MAX 200

/**
 * struct rem_gate - where the other CPUs wait until everything is back
 * @back: CPUs whose context is restored, with the boot CPU
 * @arrived: their number
 * @left: CPUs that have seen @open; the gate is closed again only after all
 *	have
 * @open: CPUs may leave
 */
static struct rem_gate {
	struct cpumask back;
	atomic_t arrived;
	atomic_t left;
	bool open;
} rem_gate;

static void rem_gate_close(void)
{
	cpumask_copy(&rem_gate.back, cpumask_of(smp_processor_id()));
	atomic_set(&rem_gate.arrived, 0);
	atomic_set(&rem_gate.left, 0);
	WRITE_ONCE(rem_gate.open, false);
}

/* Only for CPUs that run. */
static void rem_gate_wait(atomic_t *counter, unsigned int count)
{
	while (atomic_read(counter) < count)
		cpu_relax();
}

/* Returns whether so many arrive within REM_CPU_START_MS. */
static bool rem_gate_wait_start(unsigned int count)
{
	u64 ticks = (u64)rem_ticks_khz() * REM_CPU_START_MS;
	u64 begin = rem_ticks();

	while (atomic_read(&rem_gate.arrived) < count) {
		if (rem_ticks() - begin > ticks)
			return false;
		rem_cpus_start_next(&rem_gate.back);
		cpu_relax();
	}
	return true;
}

/*
 * Without a CPU the image cannot continue: what it was doing is lost with it. The
 * loader has consumed the image, so the next boot is a cold one. It finds these
 * events and names them as its reason.
 */
static void __noreturn rem_gate_give_up(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (!cpumask_test_cpu(cpu, &rem_gate.back))
			rem_event(REM_EVENT_GO_CPU_LOST, cpu);
	rem_timeline_flush();
	rem_reset();
}

/* The same for a CPU on which the image cannot continue. */
static void __noreturn rem_cpu_give_up(enum rem_event_type why,
				       unsigned int cpu)
{
	rem_event(why, cpu);
	rem_timeline_flush();
	rem_reset();
}

static void rem_gate_wait_all(unsigned int count)
{
	unsigned int starts;

	for (starts = 0; starts < REM_CPU_STARTS_MAX; starts++) {
		if (rem_gate_wait_start(count))
			return;
		rem_cpus_start_again(&rem_gate.back);
	}
	rem_gate_give_up();
}

/* Context: boot CPU; all others wait. */
static void rem_gate_check_clocks(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu && rem_clock_lost(cpu))
			rem_cpu_give_up(REM_EVENT_GO_TSC, cpu);
}

/**
 * rem_go_prepare - copy what Go needs and the machine does not keep
 *
 * Context: process, once, before the record is prepared.
 * Return: 0 or a negative errno.
 */
int __init rem_go_prepare(void)
{
	int err = rem_pagetable_prepare();

	if (!err)
		err = rem_trampoline_prepare();
	if (!err)
		err = rem_restart_prepare();
	if (!err)
		rem_iommu_prepare();
	return err;
}

/** rem_go_prepare_cpu - the same for one CPU. Context: the CPU itself, any. */
void rem_go_prepare_cpu(void)
{
	rem_interrupts_prepare_cpu();
}

/*
 * First of all, so that the events of Go are in the right timeline. Not inlined:
 * tests use it as a mark.
 */
static noinline void rem_go_begin(void)
{
	rem.resumes++;
	rem_timeline_begin_go(rem.sequence);
	rem_event(REM_EVENT_GO_BEGIN, 0);
}

/**
 * rem_go - bring the machine back, each part after those that it depends on
 * @resumed: the power was off; otherwise a Stop could not commit after CPUs
 *	were halted and devices were cut off, which Go undoes just the same
 *
 * All CPUs have left the gate.
 *
 * Context: boot CPU alone, interrupts off, on the stack that was saved.
 */
void notrace rem_go(bool resumed)
{
	unsigned int others = num_online_cpus() - 1;
	bool complete;

	if (resumed) {
		complete = rem_cpu_restore(&rem_contexts[0]);
		rem_sched_clock_go();
		rem_go_begin();
		if (!complete)
			rem_cpu_give_up(REM_EVENT_GO_MICROCODE, 0);
	} else {
		rem_sched_clock_go();
	}
	rem_gate_close();
	rem_trampoline_restore();
	rem_interrupts_restore_cpu();
	rem_mixed_go_begin(resumed);
	rem_cpus_start(&rem_gate.back);
	rem_mixed_go();
	rem_mixed_went();

	rem_interrupts_restore();
	rem_event(REM_EVENT_GO_SYSCORE, 0);
	if (rem.running_mode == REM_MODE_FAST) /* else drivers resume them */
		rem_event(REM_EVENT_GO_DEVICES, rem_devices_go());
	rem_timekeeping_go(resumed);
	rem_entropy_reseed();
	rem_event(REM_EVENT_GO_ENTROPY, 0);
	/* The wire may be behind devices that drivers resume. */
	if (!resumed || rem.running_mode == REM_MODE_FAST)
		rem_power_go(resumed);
	rem_nvdimm_go();

	rem_gate_wait_all(others);
	if (resumed)
		rem_gate_check_clocks();
	rem_event(REM_EVENT_GO_CPUS, others + 1);
	WRITE_ONCE(rem_gate.open, true);
	rem_gate_wait(&rem_gate.left, others);
}

/**
 * rem_go_cpu - bring one of the other CPUs back, and wait until all is back
 * @ctx: its context
 *
 * Context: the CPU itself, interrupts off, on the stack that was saved.
 */
void notrace rem_go_cpu(struct rem_context *ctx)
{
	if (!rem_cpu_restore(ctx))
		rem_cpu_give_up(REM_EVENT_GO_MICROCODE, ctx->cpu);
	rem_interrupts_restore_cpu();
	rem_mixed_go();
	rem_event(REM_EVENT_GO_CPU, ctx->cpu);
	cpumask_set_cpu(ctx->cpu, &rem_gate.back);
	atomic_inc(&rem_gate.arrived);
	while (!READ_ONCE(rem_gate.open)) {
		rem_clock_answer(ctx->cpu);
		cpu_relax();
	}
	atomic_inc(&rem_gate.left);
}

/**
 * rem_go_cpu_finish - the last step on each CPU before it enables interrupts
 *
 * Context: the CPU itself, interrupts off.
 */
void rem_go_cpu_finish(void)
{
	rem_tick_resume();
	rem_interrupts_repeat();
}

/**
 * rem_go_finish - begin the part of Go that may sleep; a Stop may begin meanwhile
 *
 * It ends in a thread of its own: the caller has to be ready for the next Go.
 *
 * Context: process.
 */
void rem_go_finish(void)
{
	rem_restart_begin();
}

/**
 * rem_go_dpm - Go of stop=dpm, up to where the kernel's own resume takes over
 *
 * Context: boot CPU alone, interrupts off, on the stack that was saved.
 */
void notrace rem_go_dpm(void)
{
	bool complete = rem_cpu_restore(&rem_contexts[0]);

	rem_core_restore();
	rem_go_begin();
	if (!complete)
		rem_cpu_give_up(REM_EVENT_GO_MICROCODE, 0);
	rem_trampoline_restore();
	rem_mixed_go_begin(true);
	rem_mixed_go();
	rem_mixed_went();
	rem_platform_restore();
}
