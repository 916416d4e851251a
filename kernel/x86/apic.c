// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt controllers, and the interrupts that are lost with them.
 *
 * The registers of a local APIC are copied when the machine is armed; what
 * changes later (the timer) is restored by its own subsystem. Interrupts and
 * IPIs that were pending in a controller at the cut are lost, so after Go each
 * CPU sends itself every vector that it has a handler for. A spurious interrupt
 * is harmless; a lost one may be waited for forever.
 */
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/smp.h>
#include <linux/tick.h>
#include <asm/apic.h>
#include <asm/hw_irq.h>
#include <asm/i8259.h>
#include <asm/io_apic.h>
#include <asm/irq_remapping.h>
#include <asm/irq_vectors.h>
#include <asm/msr.h>
#include "../hooks/hooks.h"
#include "../machine.h"
#include "../resume/resume.h"

/* In this order: the APIC keeps vectors masked until SPIV enables it. */
static const u16 rem_apic_regs[] = {
	APIC_DFR, APIC_LDR, APIC_TASKPRI, APIC_SPIV, APIC_LVT0, APIC_LVT1,
	APIC_LVTPC, APIC_LVTTHMR, APIC_LVTT, APIC_TDCR, APIC_LVTERR,
	APIC_LVTCMCI,
};

struct rem_apic {
	u64 base;
	u32 reg[ARRAY_SIZE(rem_apic_regs)];
};

static DEFINE_PER_CPU(struct rem_apic, rem_apic);

/* x2APIC mode lacks DFR and LDR; an APIC may have few LVT entries. */
static bool rem_apic_has(u16 reg)
{
	int lvts = GET_APIC_MAXLVT(apic_read(APIC_LVR));

	switch (reg) {
	case APIC_DFR:
	case APIC_LDR:
		return !x2apic_enabled();
	case APIC_LVTPC:
		return lvts >= 4;
	case APIC_LVTTHMR:
		return lvts >= 5;
	case APIC_LVTCMCI:
		return lvts >= 6;
	default:
		return true;
	}
}

/** rem_interrupts_prepare_cpu - copy the registers of this CPU's APIC. Context: any. */
void rem_interrupts_prepare_cpu(void)
{
	struct rem_apic *saved = this_cpu_ptr(&rem_apic);
	unsigned int i;

	rdmsrl(MSR_IA32_APICBASE, saved->base);
	for (i = 0; i < ARRAY_SIZE(rem_apic_regs); i++)
		if (rem_apic_has(rem_apic_regs[i]))
			saved->reg[i] = apic_read(rem_apic_regs[i]);
}

/**
 * rem_interrupts_restore_cpu - restore the local APIC of this CPU
 *
 * Context: Go, the CPU itself, interrupts off.
 */
void rem_interrupts_restore_cpu(void)
{
	struct rem_apic *saved = this_cpu_ptr(&rem_apic);
	unsigned int i;
	u64 base;

	rdmsrl(MSR_IA32_APICBASE, base);
	if (base != saved->base)
		wrmsrl(MSR_IA32_APICBASE, saved->base);
	for (i = 0; i < ARRAY_SIZE(rem_apic_regs); i++)
		if (rem_apic_has(rem_apic_regs[i]))
			apic_write(rem_apic_regs[i], saved->reg[i]);
	apic_write(APIC_ESR, 0);
}

/** rem_interrupts_save - save the IOAPICs. Context: Stop, one CPU, interrupts off. */
void rem_interrupts_save(void)
{
	save_ioapic_entries();
}

/**
 * rem_interrupts_restore - restore IOMMU, interrupt remapping and IOAPICs
 *
 * Context: Go, boot CPU, interrupts off.
 */
void rem_interrupts_restore(void)
{
	rem_iommu_go();
	irq_remapping_reenable(x2apic_mode);
	legacy_pic->init(0);
	legacy_pic->mask_all();
	restore_ioapic_entries();
	rem_platform_restore();
}

/**
 * rem_tick_resume - restart the clock event device of this CPU
 *
 * Context: Go, each CPU, interrupts off, timekeeping runs.
 */
void rem_tick_resume(void)
{
	/* The device has lost its state, so its driver must forget it, too. */
	tick_suspend_local();
	tick_resume_local();
}

/*
 * A suspended device waits for no interrupt; the wire of the supply is never
 * suspended. Interrupts of the legacy PIC get no EOI at the APIC.
 */
static bool rem_interrupt_is_awaited(struct irq_desc *desc)
{
	if (rem.running_mode != REM_MODE_FAST && !desc->no_suspend_depth)
		return false;
	return desc->action && irq_desc_get_chip(desc) != legacy_pic->chip;
}

/**
 * rem_interrupts_repeat - send this CPU the interrupts that it may have lost
 *
 * Context: Go, each CPU, interrupts off.
 */
void rem_interrupts_repeat(void)
{
	int cpu = smp_processor_id();
	struct irq_desc *desc;
	unsigned int vector;

	for (vector = FIRST_EXTERNAL_VECTOR; vector < FIRST_SYSTEM_VECTOR;
	     vector++) {
		desc = __this_cpu_read(vector_irq[vector]);
		if (!IS_ERR_OR_NULL(desc) && rem_interrupt_is_awaited(desc))
			apic->send_IPI(cpu, vector);
	}
	apic->send_IPI(cpu, RESCHEDULE_VECTOR);
	apic->send_IPI(cpu, CALL_FUNCTION_VECTOR);
	apic->send_IPI(cpu, CALL_FUNCTION_SINGLE_VECTOR);
#ifdef CONFIG_IRQ_WORK
	apic->send_IPI(cpu, IRQ_WORK_VECTOR);
#endif
}
