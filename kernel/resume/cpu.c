// SPDX-License-Identifier: GPL-2.0-only
/*
 * Go of one CPU: the state that is not needed to reach C code.
 */
#include <linux/hw_breakpoint.h>
#include <linux/smp.h>
#include <asm/cacheinfo.h>
#include <asm/desc.h>
#include <asm/fpu/api.h>
#include <asm/mmu_context.h>
#include <asm/msr.h>
#include <asm/tlbflush.h>
#include "../machine.h"
#include "resume.h"

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

/**
 * rem_cpu_restore - restore what rem_context_save() stored
 * @ctx: the context
 *
 * Context: the CPU itself, at the beginning of Go, interrupts off, on the
 * stack that was saved.
 */
void notrace rem_cpu_restore(struct rem_context *ctx)
{
	unsigned int i;
	int cpu = smp_processor_id();

	write_cr2(ctx->cr2);
	rem_task_register_load(cpu);
	load_mm_ldt(current->active_mm);
	initialize_tlbstate_and_flush();
	fpu__resume_cpu();
	load_fixmap_gdt(cpu);

	loadsegment(ds, ctx->ds);
	loadsegment(es, ctx->es);
	loadsegment(fs, ctx->fs);
	load_gs_index(ctx->gs);
	/* After the selectors, which change the bases. */
	wrmsrl(MSR_FS_BASE, ctx->fs_base);
	wrmsrl(MSR_KERNEL_GS_BASE, ctx->user_gs_base);

	for (i = 0; i < ctx->msr_count; i++)
		if (ctx->msr[i].valid)
			wrmsrl(ctx->msr[i].index, ctx->msr[i].value);

	/* The FPU registers of the user task that ran here are lost. */
	this_cpu_write(fpu_fpregs_owner_ctx, NULL);
	hw_breakpoint_restore();
}
