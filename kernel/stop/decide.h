/* SPDX-License-Identifier: GPL-2.0-only */
/* Decisions of Stop as pure functions: see decide.c. Included on the host, too. */
#ifndef REM_STOP_DECIDE_H
#define REM_STOP_DECIDE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#endif

/**
 * struct rem_promise_facts - on what the promise to save the caches depends
 * @stopping: a Stop or the Go after it is in progress
 * @promised: the promise as it is
 * @exceeded: a Stop has outlasted its bound
 * @window: no Stop can begin now, or soon: a CPU goes on- or offline
 * @armed: a Stop may begin
 * @watched: a drop of PWR_OK is noticed
 * @fast: by the path that has a bound
 * @fits: the bound is not above a hold-up that is known
 * @power_ok: PWR_OK is present, so that it can drop
 * @charged: the supply has reported the charge for a Stop
 * @healthy: user space reports nothing bad of the supply and of modules
 */
struct rem_promise_facts {
	bool stopping;
	bool promised;
	bool exceeded;
	bool window;
	bool armed;
	bool watched;
	bool fast;
	bool fits;
	bool power_ok;
	bool charged;
	bool healthy;
};

/* Registers of one CPU at most. */
#define REM_QUIET_MSRS 3

/**
 * struct rem_quiet_cpu - what a CPU has that may store to memory behind its back
 * @perfmon_amd: performance monitoring with a common switch, of AMD's kind
 * @leaf_max: the last basic leaf of CPUID
 * @perfmon_eax: EAX of leaf 10, if there is one
 * @bts: branch trace store
 * @pt: processor trace
 */
struct rem_quiet_cpu {
	bool perfmon_amd;
	unsigned int leaf_max;
	unsigned int perfmon_eax;
	bool bts;
	bool pt;
};

/**
 * struct rem_quiet_msr - a register that stops something
 * @index: its number
 * @traces: what it stops is not begun again: where its buffers are is lost with the power
 * @off: bits that are clear while it is stopped
 */
struct rem_quiet_msr {
	unsigned int index;
	bool traces;
	unsigned long long off;
};

unsigned int rem_quiet_choose(const struct rem_quiet_cpu *cpu,
			      struct rem_quiet_msr *list);
bool rem_promise_decide(const struct rem_promise_facts *facts);
const char *rem_acpi_blocker(unsigned long long facs, unsigned long long copies,
			     unsigned long long copies_end);

#endif /* REM_STOP_DECIDE_H */
