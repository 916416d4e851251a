// SPDX-License-Identifier: GPL-2.0-only
/*
 * Go of one CPU: the state that is not needed to reach C code.
 */
#include <linux/hw_breakpoint.h>
#include <linux/smp.h>
#include <asm/cacheinfo.h>
#include <asm/desc.h>
#include <asm/fpu/api.h>
#include <asm/microcode.h>
#include <asm/mmu_context.h>
#include <asm/msr.h>
#include <asm/tlbflush.h>
#include "../machine.h"
#include "../resume/decide.h"
#include "../resume/resume.h"

static_assert(REM_CTX_MCE_MSRS == REM_MCE_MSRS_MAX);
static_assert(REM_CTX_MSRS == REM_MSRS_KEPT_MAX);

/**
 * rem_cpu_refused - whether this CPU is in a mode that Go could not restore
 *
 * The kernel's configuration excludes that (Kconfig); other code may still do it, on
 * any CPU, at any time.
 *
 * Context: the CPU itself, not preempted.
 * Return: why the machine cannot be stopped, or NULL.
 */
const char *rem_cpu_refused(void)
{
	return rem_cr4_refused(__read_cr4());
}

static void rem_cpu_refused_ipi(void *ret_why)
{
	const char *why = rem_cpu_refused();

	if (why)
		WRITE_ONCE(*(const char **)ret_why, why);
}

/** rem_cpus_refused - the same for every online CPU. Context: process. */
const char *rem_cpus_refused(void)
{
	const char *why = NULL;

	on_each_cpu(rem_cpu_refused_ipi, &why, 1);
	return why;
}

/* Returns how many registers of machine checks this CPU has. */
static unsigned int rem_cpu_mce_msrs(u32 *list)
{
	u64 cap;

	if (!boot_cpu_has(X86_FEATURE_MCA) ||
	    rdmsrl_safe(MSR_IA32_MCG_CAP, &cap))
		return 0;
	return rem_mce_msrs(cap, boot_cpu_has(X86_FEATURE_SMCA), list);
}

/**
 * rem_cpu_msrs - the registers of this CPU that are saved and restored
 * @list: filled with at most REM_CTX_MCE_MSRS + REM_CTX_MSRS numbers
 *
 * Context: the CPU itself, any.
 * Return: how many.
 */
unsigned int rem_cpu_msrs(u32 *list)
{
	unsigned int count = rem_cpu_mce_msrs(list);

	return count + rem_msrs_kept(list + count);
}

/* Returns whether registers that the image uses may be missing. */
static bool rem_cpu_microcode(int cpu)
{
	u32 before = cpu_data(cpu).microcode;
	u32 now = before;
	u32 dummy;

	/* Some registers exist only with the update that was in effect. */
	microcode_bsp_resume();
	if (boot_cpu_data.x86_vendor == X86_VENDOR_INTEL)
		now = intel_get_microcode_revision();
	else if (boot_cpu_data.x86_vendor == X86_VENDOR_AMD)
		rdmsr_safe(MSR_AMD64_PATCH_LEVEL, &now, &dummy);
	return rem_microcode_lost(before, now);
}

static void rem_task_register_load(int cpu)
{
	struct desc_struct *gdt = get_cpu_gdt_rw(cpu);
	tss_desc tss;

	/* LTR faults on a descriptor that is marked busy, as ours is. */
	set_tss_desc(cpu, &get_cpu_entry_area(cpu)->tss.x86_tss);
	memcpy(&tss, &gdt[GDT_ENTRY_TSS], sizeof(tss));
	tss.type = DESC_TSS;
	write_gdt_entry(gdt, GDT_ENTRY_TSS, &tss, DESC_TSS);
	load_TR_desc();
}

static void rem_cpu_selectors(const struct rem_context *ctx)
{
	loadsegment(ds, ctx->ds);
	loadsegment(es, ctx->es);
	loadsegment(fs, ctx->fs);
	load_gs_index(ctx->gs);
}

static void rem_cpu_bases(const struct rem_context *ctx)
{
	wrmsrl(MSR_FS_BASE, ctx->fs_base);
	wrmsrl(MSR_KERNEL_GS_BASE, ctx->user_gs_base);
}

static void rem_cpu_msrs_write(const struct rem_context *ctx)
{
	unsigned int i;

	for (i = 0; i < ctx->msr_count; i++)
		if (ctx->msr[i].valid)
			wrmsrl(ctx->msr[i].index,
			       rem_msr_go(ctx->msr[i].index,
					  ctx->msr[i].value));
}

/* Returns false if the CPU lacks the microcode that it had. */
static bool rem_cpu_do(enum rem_cpu_step step, const struct rem_context *ctx)
{
	switch (step) {
	case REM_CPU_FPU:
		fpu__resume_cpu();
		break;
	case REM_CPU_SELECTORS:
		rem_cpu_selectors(ctx);
		break;
	case REM_CPU_BASES:
		rem_cpu_bases(ctx);
		break;
	case REM_CPU_MICROCODE:
		return !rem_cpu_microcode(smp_processor_id());
	case REM_CPU_MSRS:
		rem_cpu_msrs_write(ctx);
		break;
	case REM_CPU_STEPS:
		break;
	}
	return true;
}

/**
 * rem_cpu_restore - restore what rem_context_save() stored
 * @ctx: the context
 *
 * decide.c has the order of what depends on each other.
 *
 * Context: the CPU itself, at the beginning of Go, interrupts off, on the
 * stack that was saved.
 * Return: false if the CPU lacks the microcode that it had.
 */
bool notrace rem_cpu_restore(struct rem_context *ctx)
{
	unsigned int i;
	int cpu = smp_processor_id();

	write_cr2(ctx->cr2);
	rem_task_register_load(cpu);
	load_mm_ldt(current->active_mm);
	initialize_tlbstate_and_flush();
	load_fixmap_gdt(cpu);
	for (i = 0; i < REM_CPU_STEPS; i++)
		if (!rem_cpu_do(rem_cpu_step(i), ctx))
			return false;

	/* The FPU registers of the user task that ran here are lost. */
	this_cpu_write(fpu_fpregs_owner_ctx, NULL);
	hw_breakpoint_restore();
	return true;
}
