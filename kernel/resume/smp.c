// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starting the other CPUs into the contexts that they were parked with. Not CPU
 * hotplug: for the scheduler and for everyone else they never left.
 */
#include <linux/cpumask.h>
#include <asm/apic.h>
#include <asm/realmode.h>
#include <asm/smp.h>
#include "../stop/stop.h"
#include "resume.h"

static void rem_cpus_send(u32 command)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (cpu == smp_processor_id())
			continue;
		safe_apic_wait_icr_idle();
		apic_icr_write(command, per_cpu(x86_cpu_to_apicid, cpu));
	}
}

/**
 * rem_cpus_start - send every other online CPU to rem_go_secondary
 *
 * Each finds its number by its APIC id and its stack by the thread it was
 * parked in (head_64.S); all at once.
 *
 * Context: Go, boot CPU, interrupts off, trampoline in place. Return: nothing.
 */
void rem_cpus_start(void)
{
	unsigned long start = real_mode_header->trampoline_start;

	initial_code = (unsigned long)rem_go_secondary;
	smpboot_control = STARTUP_READ_APICID;
	*trampoline_lock = 0;
	/* Seen by CPUs that begin with their caches off. */
	mb();

	rem_cpus_send(APIC_INT_LEVELTRIG | APIC_INT_ASSERT | APIC_DM_INIT);
	/* Twice, as the specification has it; a CPU that runs ignores it. */
	rem_cpus_send(APIC_DM_STARTUP | start >> PAGE_SHIFT);
	rem_cpus_send(APIC_DM_STARTUP | start >> PAGE_SHIFT);
}
