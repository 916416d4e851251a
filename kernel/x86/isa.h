/* SPDX-License-Identifier: GPL-2.0-only */
/* What isa.h names, for x86-64. */
#ifndef REM_X86_ISA_H
#define REM_X86_ISA_H

/* Offsets in struct rem_context for the assembly; checked in context.c. */
#define REM_CTX_RSP 0
#define REM_CTX_CR0 8
#define REM_CTX_CR3 16
#define REM_CTX_CR4 24
#define REM_CTX_EFER 32
#define REM_CTX_GS_BASE 40
#define REM_CTX_GDT 48
#define REM_CTX_IDT 64

/* Offset in struct rem_body, for the assembly. */
#define REM_BODY_ENTRY_CR3 56

#ifndef __ASSEMBLY__

#include <linux/cache.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <asm/cacheflush.h>
#include <asm/desc_defs.h>
#include <asm/irqflags.h>
#include <asm/special_insns.h>
#include <asm/tsc.h>
#include <asm/x86_init.h>

/* Registers that each CPU may have, and those of machine checks. */
#define REM_CTX_MSRS 35
#define REM_CTX_MCE_MSRS 66

struct rem_saved_msr {
	u32 index;
	u32 valid;
	u64 value;
};

/**
 * struct rem_context - the volatile state of one CPU
 * @rsp: stack pointer; the general registers are on the stack
 * @cr0: control register
 * @cr3: control register
 * @cr4: control register
 * @efer: MSR_EFER
 * @gs_base: MSR_GS_BASE, the kernel's
 * @gdt: for LGDT
 * @pad: aligns @idt
 * @idt: for LIDT
 * @pad2: aligns @cr2
 * @cr2: control register
 * @fs_base: MSR_FS_BASE
 * @user_gs_base: MSR_KERNEL_GS_BASE
 * @ds: selector
 * @es: selector
 * @fs: selector
 * @gs: selector
 * @cpu: number of the CPU
 * @msr_count: used entries of @msr
 * @msr: other model specific registers
 *
 * The user's FPU state, FS/GS bases and debug registers are not here: the
 * switch to the thread that saves the context has stored them with their task.
 */
struct rem_context {
	u64 rsp;
	u64 cr0;
	u64 cr3;
	u64 cr4;
	u64 efer;
	u64 gs_base;
	struct desc_ptr gdt;
	u8 pad[6];
	struct desc_ptr idt;
	u8 pad2[6];
	u64 cr2;
	u64 fs_base;
	u64 user_gs_base;
	u16 ds;
	u16 es;
	u16 fs;
	u16 gs;
	u32 cpu;
	u32 msr_count;
	struct rem_saved_msr msr[REM_CTX_MSRS + REM_CTX_MCE_MSRS];
} ____cacheline_aligned;

/**
 * struct rem_secret - what is to be as before after rem_secret_begin()
 * @idt: for LIDT
 * @dr7: debug register
 * @nmis: how many were put off before
 * @machine_checks: of this CPU
 */
struct rem_secret {
	struct desc_ptr idt;
	unsigned long dr7;
	unsigned long nmis;
	unsigned int machine_checks;
};

DECLARE_PER_CPU(struct rem_context *, rem_this_context);

/* quiet.c, quiet_64.S; how many NMIs were put off */
extern unsigned long rem_secret_nmis;
void rem_secret_begin(struct rem_secret *secret);
bool rem_secret_end(const struct rem_secret *secret);

/* cpu.c */
unsigned int rem_cpu_msrs(u32 *list);

static inline u64 rem_ticks(void)
{
	return rdtsc_ordered();
}

static inline u32 rem_ticks_khz(void)
{
	return max(tsc_khz, 1u);
}

static inline void __noreturn rem_halt(void)
{
	for (;;) {
		native_irq_disable();
		native_halt();
	}
}

static inline void rem_caches_write_back(void)
{
	wbinvd();
}

static inline void rem_lines_write_back(const void *addr, size_t bytes)
{
	clflush_cache_range((void *)addr, bytes);
}

/* A starting CPU uses the stack below this until it has its context. */
static inline void rem_context_parked(const struct rem_context *ctx)
{
	current->thread.sp = ctx->rsp;
}

/* Those of the few interrupt controllers are a part of the fixed steps. */
static inline unsigned int rem_interrupts_registers(void)
{
	return 0;
}

/* WBINVD writes back all of them. */
static inline bool rem_caches_by_lines(void)
{
	return false;
}

static inline void rem_sched_clock_stop(void)
{
	x86_platform.save_sched_clock_state();
}

static inline void rem_sched_clock_go(void)
{
	x86_platform.restore_sched_clock_state();
}

static inline void rem_core_save(void)
{
	rem_sched_clock_stop();
}

static inline void rem_core_restore(void)
{
	tsc_verify_tsc_adjust(true);
	rem_sched_clock_go();
}

#endif /* __ASSEMBLY__ */
#endif /* REM_X86_ISA_H */
