// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time stamp counters after a cut.
 *
 * All counters of a package start again at its reset, at the same time. Firmware may then
 * write TSC_ADJUST at each start, and not always the same on all CPUs of a package. At
 * boot the kernel has made it one value for each package; Go writes that value (context.c),
 * as the kernel would itself the next time a CPU is idle (tsc_verify_tsc_adjust()).
 *
 * How far packages are apart may be another time each time the power returns, and the
 * kernel has measured that at boot only. So while all CPUs wait for the end of Go, the boot
 * CPU compares its counter with that of each other CPU. If they differ, clocks would go
 * backwards on the way from one CPU to the other. To call the counters unstable would not
 * do: the kernel changes to another clock only when threads run, and programs run with them.
 */
#include <linux/cache.h>
#include <linux/compiler.h>
#include <asm/barrier.h>
#include <asm/processor.h>
#include "../machine.h"
#include "../resume/decide.h"
#include "../resume/resume.h"

/* One reading may be late by an access to memory, or by the host of a virtual machine. */
#define REM_TSC_READINGS 8

/**
 * struct rem_tsc - a question of the boot CPU, and the answer
 * @asked: the number of the CPU that is to answer; 0: none, or it has answered
 * @there: its counter
 */
static struct rem_tsc {
	unsigned int asked;
	u64 there;
} rem_tsc ____cacheline_aligned;

/**
 * rem_clock_answer - tell the boot CPU this CPU's counter, if it asks
 * @cpu: this CPU's number, not 0
 *
 * Context: Go, a CPU that waits for the end of it, interrupts off.
 */
void rem_clock_answer(unsigned int cpu)
{
	/* The counter is read after the question. */
	if (smp_load_acquire(&rem_tsc.asked) != cpu)
		return;
	rem_tsc.there = rem_ticks();
	/* The boot CPU waits for it, and reads @there then. */
	smp_store_release(&rem_tsc.asked, 0);
}

static bool rem_tsc_read(unsigned int cpu)
{
	u64 before = rem_ticks();

	/* The counter was read before the question, and is read again after the answer. */
	smp_store_release(&rem_tsc.asked, cpu);
	/* With it comes @there. */
	while (smp_load_acquire(&rem_tsc.asked))
		cpu_relax();
	return rem_tsc_differs(before, rem_tsc.there, rem_ticks());
}

/**
 * rem_clock_lost - whether a CPU's counter differs from that of the boot CPU
 * @cpu: the CPU, which is in rem_clock_answer() again and again
 *
 * Where the kernel does not trust the counters, nobody relies on them.
 *
 * Context: Go, boot CPU, interrupts off.
 * Return: true if the image cannot continue.
 */
bool rem_clock_lost(unsigned int cpu)
{
	unsigned int reading;

	if (check_tsc_unstable())
		return false;
	for (reading = 0; reading < REM_TSC_READINGS; reading++)
		if (rem_tsc_read(cpu))
			return true;
	return false;
}
