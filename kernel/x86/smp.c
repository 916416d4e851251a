// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts the other CPUs in the contexts in which they were parked. This is not CPU
 * hotplug: for the rest of the kernel they have been online all the time.
 *
 * All cores start in parallel, but the threads of a core one after the other, since
 * they load microcode (decide.c). Until its turn a thread waits for its SIPI, as the
 * others wait at boot while the boot CPU loads.
 */
#include <linux/cpumask.h>
#include <linux/topology.h>
#include <asm/apic.h>
#include <asm/realmode.h>
#include <asm/smp.h>
#include "../resume/decide.h"
#include "../resume/resume.h"

/* CPUs that were sent a SIPI in this Go. */
static struct cpumask rem_cpus_started;

static void rem_cpu_send(u32 command, unsigned int cpu)
{
	safe_apic_wait_icr_idle();
	apic_icr_write(command, per_cpu(x86_cpu_to_apicid, cpu));
}

/**
 * rem_cpus_start - send every other online CPU to rem_go_secondary
 * @back: only the boot CPU
 *
 * Cores start in parallel. Each CPU finds its number by its APIC id, and its stack by
 * the thread in which it was parked (head_64.S).
 *
 * Context: Go, boot CPU, interrupts off, trampoline in place.
 */
void rem_cpus_start(const struct cpumask *back)
{
	unsigned int cpu;

	initial_code = (unsigned long)rem_go_secondary;
	smpboot_control = STARTUP_READ_APICID;
	*trampoline_lock = 0;
	/* Visible to CPUs that start with their caches off. */
	mb();

	cpumask_clear(&rem_cpus_started);
	for_each_online_cpu(cpu)
		if (cpu != smp_processor_id())
			rem_cpu_send(APIC_INT_LEVELTRIG | APIC_INT_ASSERT |
					     APIC_DM_INIT,
				     cpu);
	rem_cpus_start_next(back);
}

/**
 * rem_cpus_start_next - start CPUs whose turn has come
 * @back: CPUs that have come back
 *
 * Context: Go, boot CPU, interrupts off, after rem_cpus_start().
 */
void rem_cpus_start_next(const struct cpumask *back)
{
	bool more = false;
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu != smp_processor_id() &&
		    !cpumask_test_cpu(cpu, &rem_cpus_started) &&
		    rem_cpu_may_start(cpu,
				      cpumask_bits(topology_sibling_cpumask(cpu)),
				      cpumask_bits(cpu_online_mask),
				      cpumask_bits(back))) {
			cpumask_set_cpu(cpu, &rem_cpus_started);
			more = true;
		}
	if (!more)
		return;
	/* Twice, as specified; a CPU that runs already ignores it. */
	rem_cpus_start_again(back);
	rem_cpus_start_again(back);
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
	unsigned int cpu;

	for_each_cpu(cpu, &rem_cpus_started)
		if (!cpumask_test_cpu(cpu, back))
			rem_cpu_send(APIC_DM_STARTUP | start >> PAGE_SHIFT,
				     cpu);
}
