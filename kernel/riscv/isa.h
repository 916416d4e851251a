/* SPDX-License-Identifier: GPL-2.0-only */
/* What isa.h names, for RISC-V. */
#ifndef REM_RISCV_ISA_H
#define REM_RISCV_ISA_H

/* Offsets in struct rem_context, for machine/campaign, which has no kernel headers */
#define REM_CTX_SP 16
#define REM_CTX_SATP 312

#ifndef __ASSEMBLY__

#include <linux/cache.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <asm/csr.h>
#include <asm/delay.h>
#include <asm/sbi.h>
#include <asm/suspend.h>
#include <asm/timex.h>

/**
 * struct rem_context - the volatile state of one hart
 * @kernel: what the kernel's own suspend saves: general registers, trap vector, enabled
 *	interrupts, page table, environment
 * @scounteren: counters that programs may read
 * @sstateen0: state that programs may use, if the hart has the register
 * @hartid: its id
 * @cpu: number of the CPU
 *
 * The user's FPU and vector state is not here: the switch to the thread that saves the
 * context has stored it with its task.
 */
struct rem_context {
	struct suspend_context kernel;
	u64 scounteren;
	u64 sstateen0;
	u64 hartid;
	u32 cpu;
} ____cacheline_aligned;

/* entry.S: the address of the boot CPU's context, found relative to the code */
extern unsigned long rem_go_context;

/* flush.c */
void rem_caches_write_back(void);
void rem_lines_write_back(const void *addr, size_t bytes);
void rem_caches_settled(void);
const char *rem_caches_refused(void);
bool rem_caches_by_lines(void);

/* clock.c */
void rem_sched_clock_stop(void);
void rem_sched_clock_go(void);

static inline u64 rem_ticks(void)
{
	/* Reading the time is not ordered with memory by itself. */
	mb();
	return get_cycles64();
}

static inline u32 rem_ticks_khz(void)
{
	return max_t(u32, riscv_timebase / 1000, 1);
}

/* Firmware has it from then on, and can start it again. */
static inline void __noreturn rem_halt(void)
{
	for (;;)
		sbi_ecall(SBI_EXT_HSM, SBI_EXT_HSM_HART_STOP, 0, 0, 0, 0, 0, 0);
}

/* A hart starts with the address of its context, and needs no stack until it has it. */
static inline void rem_context_parked(const struct rem_context *ctx)
{
}

/* interrupts.c */
unsigned int rem_interrupts_registers(void);
void rem_core_save(void);
void rem_core_restore(void);

#endif /* __ASSEMBLY__ */
#endif /* REM_RISCV_ISA_H */
