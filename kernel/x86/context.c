// SPDX-License-Identifier: GPL-2.0-only
/*
 * The volatile state of one CPU, copied into NVRAM.
 *
 * Which model specific registers exist is probed once, when the machine is
 * armed, and not while power is failing.
 */
#include <linux/smp.h>
#include <asm/desc.h>
#include <asm/msr.h>
#include <asm/special_insns.h>
#include "../stop/stop.h"

static_assert(offsetof(struct rem_context, rsp) == REM_CTX_RSP);
static_assert(offsetof(struct rem_context, cr0) == REM_CTX_CR0);
static_assert(offsetof(struct rem_context, cr3) == REM_CTX_CR3);
static_assert(offsetof(struct rem_context, cr4) == REM_CTX_CR4);
static_assert(offsetof(struct rem_context, efer) == REM_CTX_EFER);
static_assert(offsetof(struct rem_context, gs_base) == REM_CTX_GS_BASE);
static_assert(offsetof(struct rem_context, gdt) == REM_CTX_GDT);
static_assert(offsetof(struct rem_context, idt) == REM_CTX_IDT);
static_assert(offsetof(struct rem_body, entry_cr3) == REM_BODY_ENTRY_CR3);

struct rem_context rem_contexts[NR_CPUS];
/* For the entry code, which finds its CPU by the GS base. */
DEFINE_PER_CPU(struct rem_context *, rem_this_context);

/**
 * rem_context_prepare - probe which registers this CPU has
 *
 * Context: the CPU itself, may be in an IPI.
 */
void rem_context_prepare(void)
{
	struct rem_context *ctx = &rem_contexts[smp_processor_id()];
	u32 list[REM_CTX_MCE_MSRS + REM_CTX_MSRS];
	unsigned int i;

	this_cpu_write(rem_this_context, ctx);
	ctx->cpu = smp_processor_id();
	ctx->msr_count = rem_cpu_msrs(list);
	for (i = 0; i < ctx->msr_count; i++) {
		struct rem_saved_msr *msr = &ctx->msr[i];

		msr->index = list[i];
		/*
		 * Written, too: Go must not be the first to find that a
		 * register can be read but not written.
		 */
		msr->valid = !rdmsrl_safe(msr->index, &msr->value) &&
			     !wrmsrl_safe(msr->index, msr->value);
	}
}

/**
 * rem_context_save - store this CPU's volatile state, except its stack pointer
 * @ctx: destination
 *
 * Context: the CPU itself, in a kernel thread, interrupts off.
 */
void rem_context_save(struct rem_context *ctx)
{
	unsigned int i;

	ctx->cr0 = read_cr0();
	ctx->cr2 = read_cr2();
	ctx->cr3 = __read_cr3();
	ctx->cr4 = __read_cr4();
	rdmsrl(MSR_EFER, ctx->efer);
	rdmsrl(MSR_GS_BASE, ctx->gs_base);
	rdmsrl(MSR_FS_BASE, ctx->fs_base);
	rdmsrl(MSR_KERNEL_GS_BASE, ctx->user_gs_base);
	savesegment(ds, ctx->ds);
	savesegment(es, ctx->es);
	savesegment(fs, ctx->fs);
	savesegment(gs, ctx->gs);
	store_idt(&ctx->idt);
	/* The writable alias: loading TR sets its busy bit. */
	ctx->gdt.size = GDT_SIZE - 1;
	ctx->gdt.address = (unsigned long)get_cpu_gdt_rw(smp_processor_id());

	for (i = 0; i < ctx->msr_count; i++)
		if (ctx->msr[i].valid)
			rdmsrl(ctx->msr[i].index, ctx->msr[i].value);
}
