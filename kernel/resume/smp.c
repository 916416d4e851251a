// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts the other CPUs in the contexts in which they were parked. This is not CPU
 * hotplug: for the rest of the kernel they have been online all the time.
 */
#include <linux/cpumask.h>
#include <asm/apic.h>
#include <asm/realmode.h>
#include <asm/smp.h>
#include "resume.h"

static void rem_cpus_send(u32 command, const struct cpumask *back)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (cpu == smp_processor_id() || cpumask_test_cpu(cpu, back))
			continue;
		safe_apic_wait_icr_idle();
		apic_icr_write(command, per_cpu(x86_cpu_to_apicid, cpu));
	}
}

/**
 * rem_cpus_start - send every other online CPU to rem_go_secondary
 *
 * They start in parallel. Each finds its number by its APIC id, and its stack by
 * the thread in which it was parked (head_64.S).
 *
 * Context: Go, boot CPU, interrupts off, trampoline in place.
 */
void rem_cpus_start(void)
{
	initial_code = (unsigned long)rem_go_secondary;
	smpboot_control = STARTUP_READ_APICID;
	*trampoline_lock = 0;
	/* Visible to CPUs that start with their caches off. */
	mb();

	rem_cpus_send(APIC_INT_LEVELTRIG | APIC_INT_ASSERT | APIC_DM_INIT,
		      cpu_none_mask);
	/* Twice, as specified; a CPU that runs already ignores it. */
	rem_cpus_start_again(cpu_none_mask);
	rem_cpus_start_again(cpu_none_mask);
}

/**
 * rem_cpus_start_again - repeat the start of CPUs that have not come back
 * @back: those that have
 *
 * Only the SIPI: a CPU that missed it still waits for one, and a CPU that is on its
 * way ignores it, while an INIT would stop it in the middle.
 *
 * Context: Go, boot CPU, interrupts off, after rem_cpus_start().
 */
void rem_cpus_start_again(const struct cpumask *back)
{
	unsigned long start = real_mode_header->trampoline_start;

	rem_cpus_send(APIC_DM_STARTUP | start >> PAGE_SHIFT, back);
}
