// SPDX-License-Identifier: GPL-2.0-only
/*
 * Silence on a CPU, from before it writes back its caches to the end of power: what
 * would store to memory behind its back is off. That is performance monitoring,
 * which writes buffers and raises NMIs (perf, the NMI watchdog), and tracing by
 * hardware. An NMI from elsewhere and a machine check, which nothing masks, get
 * handlers that store nothing (quiet_64.S).
 *
 * And secrecy for some microseconds of a machine that runs.
 */
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/debugreg.h>
#include <asm/desc.h>
#include <asm/mce.h>
#include <asm/msr.h>
#include <asm/trapnr.h>
#include "../stop/decide.h"
#include "../stop/stop.h"

#define REM_CPUID_PERFMON 10

/* Entries of the local vector table of an APIC that has one for counters. */
#define REM_LVTS_WITH_PC 4

asmlinkage void rem_quiet_nmi(void);
asmlinkage void rem_quiet_halt(void);
asmlinkage void rem_secret_nmi(void);

static struct rem_quiet_msr rem_quiet_msrs[REM_QUIET_MSRS];
static unsigned int rem_quiet_msr_count;
static DEFINE_PER_CPU(u64[REM_QUIET_MSRS], rem_quiet_saved);

static gate_desc rem_quiet_idt[IDT_ENTRIES] __page_aligned_bss;
static gate_desc rem_secret_idt[IDT_ENTRIES] __page_aligned_bss;

/**
 * rem_quiet_prepare - find what has to be off, and make the tables of handlers
 *
 * They are the kernel's own, except for two vectors, or one. These use the stack of the
 * moment: that of an IST may be in use.
 *
 * Context: process, once.
 */
void __init rem_quiet_prepare(void)
{
	struct rem_quiet_cpu cpu = {
		.perfmon_amd = boot_cpu_has(X86_FEATURE_PERFMON_V2),
		.leaf_max = boot_cpu_data.cpuid_level,
		.bts = boot_cpu_has(X86_FEATURE_BTS),
		.pt = boot_cpu_has(X86_FEATURE_INTEL_PT),
	};
	struct desc_ptr idt;

	store_idt(&idt);
	memcpy(rem_quiet_idt, (void *)idt.address,
	       min_t(size_t, idt.size + 1, sizeof(rem_quiet_idt)));
	memcpy(rem_secret_idt, rem_quiet_idt, sizeof(rem_secret_idt));
	pack_gate(&rem_secret_idt[X86_TRAP_NMI], GATE_INTERRUPT,
		  (unsigned long)rem_secret_nmi, 0, 0, __KERNEL_CS);
	pack_gate(&rem_quiet_idt[X86_TRAP_NMI], GATE_INTERRUPT,
		  (unsigned long)rem_quiet_nmi, 0, 0, __KERNEL_CS);
	pack_gate(&rem_quiet_idt[X86_TRAP_MC], GATE_INTERRUPT,
		  (unsigned long)rem_quiet_halt, 0, 0, __KERNEL_CS);

	if (cpu.leaf_max >= REM_CPUID_PERFMON)
		cpu.perfmon_eax = cpuid_eax(REM_CPUID_PERFMON);
	rem_quiet_msr_count = rem_quiet_choose(&cpu, rem_quiet_msrs);
}

/**
 * rem_quiet_begin - from here on only Stop stores to memory on this CPU
 *
 * Context: Stop, the CPU itself, interrupts off, context saved.
 */
void rem_quiet_begin(void)
{
	struct desc_ptr idt = {
		.size = sizeof(rem_quiet_idt) - 1,
		.address = (unsigned long)rem_quiet_idt,
	};
	u64 *saved = this_cpu_ptr(rem_quiet_saved);
	unsigned int i;

	if (GET_APIC_MAXLVT(apic_read(APIC_LVR)) >= REM_LVTS_WITH_PC)
		apic_write(APIC_LVTPC, APIC_LVT_MASKED | APIC_DM_NMI);
	for (i = 0; i < rem_quiet_msr_count; i++) {
		rdmsrl(rem_quiet_msrs[i].index, saved[i]);
		wrmsrl(rem_quiet_msrs[i].index,
		       saved[i] & ~rem_quiet_msrs[i].off);
	}
	native_load_idt(&idt);
}

/**
 * rem_quiet_end - the kernel's handlers and counters again
 * @ctx: the context of this CPU
 *
 * Tracing by hardware stays off.
 *
 * The local APIC is restored with its other registers.
 *
 * Context: Go, or after a refused commit; the CPU itself, interrupts off.
 */
void notrace rem_quiet_end(const struct rem_context *ctx)
{
	const u64 *saved = this_cpu_ptr(rem_quiet_saved);
	unsigned int i;

	native_load_idt(&ctx->idt);
	for (i = 0; i < rem_quiet_msr_count; i++)
		if (!rem_quiet_msrs[i].traces)
			wrmsrl(rem_quiet_msrs[i].index, saved[i]);
}

static unsigned int rem_machine_checks(void)
{
#ifdef CONFIG_X86_MCE
	return this_cpu_read(mce_exception_count);
#else
	return 0;
#endif
}

/**
 * rem_secret_begin - from here on nothing saves registers of this CPU in memory
 * @secret: what rem_secret_end() needs
 *
 * An NMI is put off, and no break point is met. A machine check is handled, which saves
 * them: rem_secret_end() says so.
 *
 * Context: the running machine, interrupts off, for some microseconds.
 */
void notrace rem_secret_begin(struct rem_secret *secret)
{
	struct desc_ptr idt = {
		.size = sizeof(rem_secret_idt) - 1,
		.address = (unsigned long)rem_secret_idt,
	};

	secret->dr7 = local_db_save();
	secret->machine_checks = rem_machine_checks();
	secret->nmis = READ_ONCE(rem_secret_nmis);
	store_idt(&secret->idt);
	native_load_idt(&idt);
}

/**
 * rem_secret_end - registers have no secret any more
 * @secret: as rem_secret_begin() has left it
 *
 * The handlers of NMIs look for all causes, so one NMI stands for all that were put off.
 *
 * Context: the same.
 * Return: whether nothing has saved them.
 */
bool notrace rem_secret_end(const struct rem_secret *secret)
{
	native_load_idt(&secret->idt);
	local_db_restore(secret->dr7);
	if (READ_ONCE(rem_secret_nmis) != secret->nmis)
		__apic_send_IPI_mask(cpumask_of(smp_processor_id()),
				     NMI_VECTOR);
	return rem_machine_checks() == secret->machine_checks;
}
