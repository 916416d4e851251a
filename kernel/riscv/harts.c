// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts the other harts in the contexts in which they were parked. This is not CPU
 * hotplug: for the rest of the kernel they have been online all the time.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/smp.h>
#include <asm/sbi.h>
#include <asm/suspend.h>
#include "../machine.h"
#include "../resume/resume.h"

static void rem_hart_start(unsigned int cpu)
{
	const struct rem_context *ctx = &rem_contexts[cpu];

	sbi_ecall(SBI_EXT_HSM, SBI_EXT_HSM_HART_START, ctx->hartid,
		  __pa_symbol(__cpu_resume_enter), (unsigned long)ctx, 0, 0, 0);
}

/**
 * rem_cpus_start - start every other online hart
 * @back: only the boot CPU
 *
 * Context: Go, boot CPU, interrupts off.
 */
void rem_cpus_start(const struct cpumask *back)
{
	/* Harts that start read their contexts. */
	mb();
	rem_cpus_start_again(back);
}

/** rem_cpus_start_next - none waits for another. Context: Go, boot CPU. */
void rem_cpus_start_next(const struct cpumask *back)
{
}

/**
 * rem_cpus_start_again - repeat the start of harts that have not come back
 * @back: those that have
 *
 * Firmware refuses to start one that runs.
 *
 * Context: Go, boot CPU, interrupts off.
 */
void rem_cpus_start_again(const struct cpumask *back)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (!cpumask_test_cpu(cpu, back))
			rem_hart_start(cpu);
}
