// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decisions of Stop as pure functions, which are tested on the host, too: no hardware,
 * no state of the kernel.
 */
#include "decide.h"

/* By Intel's and AMD's manuals. */
#define REM_CPUID_PERFMON 10
#define REM_CPUID_PERFMON_VERSION 0xffu
#define REM_PERFMON_GLOBAL 2 /* the first version with the register below */
#define REM_CORE_PERF_GLOBAL_CTRL 0x38fu
#define REM_AMD_PERF_GLOBAL_CTL 0xc0000301u
#define REM_DEBUGCTL 0x1d9u
#define REM_DEBUGCTL_TRACES 0xc0ull /* TR, BTS */
#define REM_RTIT_CTL 0x570u
#define REM_RTIT_CTL_TRACEEN 0x1ull

/**
 * rem_promise_decide - whether a power failure now saves what is in CPU caches
 * @facts: all that it depends on
 *
 * PWR_OK that is absent already cannot drop: a Stop that has not begun by then begins
 * late or never, and so much of the hold-up is over.
 *
 * Return: true if it does.
 */
bool rem_promise_decide(const struct rem_promise_facts *facts)
{
	if (facts->window)
		return false;
	if (facts->stopping)
		return facts->promised && !facts->exceeded;
	return facts->armed && facts->watched && facts->fast && facts->fits &&
	       facts->power_ok && facts->charged && facts->healthy;
}

/**
 * rem_acpi_blocker - whether ACPI's state keeps the machine on the portable path
 * @facs: physical address of the FACS that the kernel uses; 0: there is none
 * @copies: where the loader's copies of tables begin, which are a part of the image
 * @copies_end: and end
 *
 * The FACS has the global lock, whose word the kernel may own at any moment. In a copy
 * it comes back with its owner, and firmware does not see it. In memory that firmware
 * shares the word is lost with the power, while its owner continues; the portable path
 * freezes tasks first, as hibernation does.
 *
 * Return: a name, or NULL.
 */
const char *rem_acpi_blocker(unsigned long long facs, unsigned long long copies,
			     unsigned long long copies_end)
{
	if (facs && (facs < copies || facs >= copies_end))
		return "a FACS that firmware shares";
	return NULL;
}

static bool rem_perfmon_global(const struct rem_quiet_cpu *cpu)
{
	return cpu->leaf_max >= REM_CPUID_PERFMON &&
	       (cpu->perfmon_eax & REM_CPUID_PERFMON_VERSION) >=
		       REM_PERFMON_GLOBAL;
}

/**
 * rem_quiet_choose - registers that keep a CPU from storing to memory behind its back
 * @cpu: what it has
 * @list: filled with at most REM_QUIET_MSRS of them
 *
 * Counters without a common switch store nothing by themselves; the interrupt that they
 * raise is masked (quiet.c).
 *
 * Return: how many.
 */
unsigned int rem_quiet_choose(const struct rem_quiet_cpu *cpu,
			      struct rem_quiet_msr *list)
{
	unsigned int count = 0;

	if (cpu->perfmon_amd || rem_perfmon_global(cpu))
		list[count++] = (struct rem_quiet_msr){
			.index = cpu->perfmon_amd ? REM_AMD_PERF_GLOBAL_CTL :
						    REM_CORE_PERF_GLOBAL_CTRL,
			.off = ~0ull
		};
	if (cpu->bts)
		list[count++] = (struct rem_quiet_msr){
			.index = REM_DEBUGCTL,
			.traces = true,
			.off = REM_DEBUGCTL_TRACES
		};
	if (cpu->pt)
		list[count++] = (struct rem_quiet_msr){
			.index = REM_RTIT_CTL,
			.traces = true,
			.off = REM_RTIT_CTL_TRACEEN
		};
	return count;
}
