/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/irqchip/irq-sifive-plic.c: the platform-level interrupt controller
 * over a power cut. What is enabled, and for whom, the driver's own functions for suspend
 * copy and restore.
 */
#include <linux/irq_work.h>
#include "hooks.h"

/** rem_plic_save - copy what is enabled. Context: Stop, one hart, interrupts off. */
void rem_plic_save(void)
{
	if (plic_global_setup_done)
		plic_irq_suspend(NULL);
}

/** rem_plic_go - enable it again. Context: Go, boot CPU, interrupts off. */
void rem_plic_go(void)
{
	if (plic_global_setup_done)
		plic_irq_resume(NULL);
}

/** rem_plic_go_cpu - let this hart have interrupts. Context: Go, interrupts off. */
void rem_plic_go_cpu(void)
{
	struct plic_handler *handler = this_cpu_ptr(&plic_handlers);

	if (handler->present)
		plic_set_threshold(handler, PLIC_ENABLE_THRESHOLD);
}

/*
 * The controller has no register that makes a wire pending, so the handlers are called
 * as if each wire of this hart had been up.
 */
static void rem_plic_handle(struct irq_work *work)
{
	struct plic_handler *handler = this_cpu_ptr(&plic_handlers);
	unsigned int hwirq;
	u32 word;

	for (hwirq = 1; hwirq <= handler->priv->nr_irqs; hwirq++) {
		word = READ_ONCE(handler->enable_save[hwirq / 32]);
		if (word & BIT(hwirq % 32) &&
		    test_bit(hwirq, handler->priv->prio_save))
			generic_handle_domain_irq(handler->priv->irqdomain,
						  hwirq);
	}
}

static DEFINE_PER_CPU(struct irq_work, rem_plic_work) =
	IRQ_WORK_INIT_HARD(rem_plic_handle);

/**
 * rem_plic_repeat - handle the interrupts that this hart may have lost
 *
 * When the hart takes interrupts again.
 *
 * Context: Go, the hart itself, interrupts off.
 */
void rem_plic_repeat(void)
{
	if (this_cpu_ptr(&plic_handlers)->present)
		irq_work_queue(this_cpu_ptr(&rem_plic_work));
}
