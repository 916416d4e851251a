// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt controllers, and the interrupts that are lost with them. A machine has the
 * Advanced Interrupt Architecture: the incoming controller of each hart, and the
 * platform's one that turns wires into messages (hooks/imsic.h, hooks/aplic.h). Or it has
 * the older controller of wires (hooks/plic.h), and a bit of each hart for IPIs.
 */
#include <linux/tick.h>
#include <asm/csr.h>
#include "../hooks/hooks.h"
#include "../machine.h"
#include "../resume/resume.h"

/** rem_interrupts_prepare_cpu - Context: the hart itself, when the machine is armed. */
void rem_interrupts_prepare_cpu(void)
{
}

/** rem_interrupts_restore_cpu - Context: Go, the hart itself, interrupts off. */
void rem_interrupts_restore_cpu(void)
{
	rem_imsic_go();
	rem_plic_go_cpu();
}

/** rem_interrupts_registers - Return: how many Stop reads. Context: any. */
unsigned int rem_interrupts_registers(void)
{
	return rem_aplic_registers() + rem_plic_registers();
}

/** rem_interrupts_save - Context: Stop, one hart, interrupts off. */
void rem_interrupts_save(void)
{
	rem_aplic_save();
	rem_plic_save();
}

/** rem_interrupts_restore - Context: Go, boot CPU, interrupts off. */
void rem_interrupts_restore(void)
{
	rem_aplic_go();
	rem_plic_go();
}

/**
 * rem_tick_resume - restart the clock event device of this hart
 *
 * Context: Go, each hart, interrupts off, timekeeping runs.
 */
void rem_tick_resume(void)
{
	/* The device has lost its state, so its driver must forget it, too. */
	tick_suspend_local();
	tick_resume_local();
}

/**
 * rem_interrupts_repeat - send this hart the interrupts that it may have lost
 *
 * A spurious interrupt is harmless; a lost one may be waited for forever.
 *
 * Context: Go, each hart, interrupts off.
 */
void rem_interrupts_repeat(void)
{
	rem_imsic_repeat();
	rem_plic_repeat();
	/* Which IPIs were sent is in memory. Messages do not use this bit. */
	csr_set(CSR_IP, IE_SIE);
}

/*
 * The drivers of messages have no callbacks in the system core; that of the scheduler's
 * clock has.
 */

/** rem_core_save - Context: Stop of generic power management, the last hart. */
void rem_core_save(void)
{
	rem_interrupts_save();
}

/** rem_core_restore - Context: Go of generic power management, the first hart. */
void rem_core_restore(void)
{
	rem_interrupts_restore_cpu();
	rem_interrupts_restore();
	rem_interrupts_repeat();
}
