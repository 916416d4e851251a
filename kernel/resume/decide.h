/* SPDX-License-Identifier: GPL-2.0-only */
/* What the fast path can restart: see decide.c. Included on the host, too. */
#ifndef REM_DECIDE_H
#define REM_DECIDE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#endif

/* More banks than any CPU has; for each two registers, and two for all. */
#define REM_MCE_BANKS_MAX 32
#define REM_MCE_MSRS_MAX (2 + 2 * REM_MCE_BANKS_MAX)

/* Registers that each CPU may have, besides those of machine checks. */
#define REM_MSRS_KEPT_MAX 35

/*
 * Steps of restoring a CPU: XCR0, XSS, and XFD for the running task; selectors, which
 * clear the bases; the bases; microcode; registers.
 */
enum rem_cpu_step {
	REM_CPU_FPU,
	REM_CPU_SELECTORS,
	REM_CPU_BASES,
	REM_CPU_MICROCODE,
	REM_CPU_MSRS,
	REM_CPU_STEPS
};

enum rem_cpu_step rem_cpu_step(unsigned int number);
unsigned int rem_msrs_kept(unsigned int *list);
bool rem_driver_kept(const char *bus, const char *driver);
bool rem_pci_returned(const char *driver);
bool rem_below_returned(const char *bus, const char *driver);
bool rem_virtio_kept(unsigned int id, unsigned long long features);
const char *rem_cr4_refused(unsigned long long cr4);
unsigned int rem_mce_msrs(unsigned long long cap, bool scalable,
			  unsigned int *list);
bool rem_cpu_may_start(unsigned int cpu, const unsigned long *core,
		       const unsigned long *online, const unsigned long *back);
bool rem_microcode_lost(unsigned int before, unsigned int now);
bool rem_tsc_differs(unsigned long long before, unsigned long long there,
		     unsigned long long after);
unsigned long long rem_msr_go(unsigned int index, unsigned long long value);

#endif /* REM_DECIDE_H */
