// SPDX-License-Identifier: GPL-2.0-only
/*
 * The volatile state of one hart, copied into NVRAM and back, and what Go does when a
 * hart is in C code again.
 */
#include <linux/mm.h>
#include <linux/smp.h>
#include <asm/cpufeature.h>
#include <asm/smp.h>
#include <asm/suspend.h>
#include <asm/tlbflush.h>
#include "../hooks/hooks.h"
#include "../resume/resume.h"
#include "../stop/stop.h"

static_assert(offsetof(struct rem_context, kernel.regs.sp) == REM_CTX_SP);
static_assert(offsetof(struct rem_context, kernel.satp) == REM_CTX_SATP);

struct rem_context rem_contexts[NR_CPUS];

/** rem_context_prepare - note who this hart is. Context: the hart itself, any. */
void rem_context_prepare(void)
{
	struct rem_context *ctx = &rem_contexts[smp_processor_id()];

	ctx->cpu = smp_processor_id();
	ctx->hartid = cpuid_to_hartid_map(ctx->cpu);
	rem_go_context = (unsigned long)&rem_contexts[0];
}

static bool rem_has_stateen(void)
{
	return riscv_has_extension_unlikely(RISCV_ISA_EXT_SMSTATEEN);
}

/**
 * rem_context_save - store this hart's volatile state but its general registers
 * @ctx: destination
 *
 * Context: the hart itself, in a kernel thread, interrupts off.
 */
void rem_context_save(struct rem_context *ctx)
{
	suspend_save_csrs(&ctx->kernel);
	ctx->scounteren = csr_read(CSR_SCOUNTEREN);
	if (rem_has_stateen())
		ctx->sstateen0 = csr_read(CSR_SSTATEEN0);
}

/**
 * rem_save_and_call - save the general registers, and call a function
 * @ctx: destination
 * @fn: called on the same stack
 * @arg: its argument
 *
 * Context: the hart itself, interrupts off.
 * Return: the function's error, if it returns; 0 after Go.
 */
asmlinkage noinline int rem_save_and_call(struct rem_context *ctx,
					  int (*fn)(void *), void *arg)
{
	int err = 0;

	/* Returns a second time, with 0. */
	if (__cpu_suspend_enter(&ctx->kernel)) {
		err = fn(arg);
		/* No jump to fn(): it would use the stack of this function. */
		barrier();
	}
	return err;
}

/**
 * rem_cpu_restore - restore what rem_context_save() stored
 * @ctx: the context
 *
 * Context: the hart itself, at the beginning of Go, interrupts off.
 * Return: true: nothing that the image needs can be missing.
 */
bool notrace rem_cpu_restore(struct rem_context *ctx)
{
	suspend_restore_csrs(&ctx->kernel);
	csr_write(CSR_SCOUNTEREN, ctx->scounteren);
	if (rem_has_stateen())
		csr_write(CSR_SSTATEEN0, ctx->sstateen0);
	local_flush_tlb_all();
	return true;
}

/** rem_cpu_refused - Return: why this hart cannot be stopped, or NULL. Context: any. */
const char *rem_cpu_refused(void)
{
	return rem_aplic_refused() ?: rem_plic_refused() ?: rem_caches_refused();
}

/** rem_cpus_refused - the same for every online hart. Context: process. */
const char *rem_cpus_refused(void)
{
	return rem_cpu_refused();
}

/** rem_quiet_prepare - Context: process, once. */
void __init rem_quiet_prepare(void)
{
}

/**
 * rem_quiet_begin - from here on only Stop stores to memory on this hart
 *
 * With interrupts off nothing else does: supervisor mode has no interrupt that it
 * cannot mask.
 *
 * Context: Stop, the hart itself, interrupts off, context saved.
 */
void rem_quiet_begin(void)
{
	csr_write(CSR_IE, 0);
}

/**
 * rem_quiet_end - interrupts are enabled one by one again
 * @ctx: the context of this hart
 *
 * Context: Go, or after a refused commit; the hart itself, interrupts off.
 */
void notrace rem_quiet_end(const struct rem_context *ctx)
{
	csr_write(CSR_IE, ctx->kernel.ie);
	if (!ctx->cpu)
		rem_caches_settled();
}
