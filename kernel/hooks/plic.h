/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/irqchip/irq-sifive-plic.c: the platform-level interrupt controller
 * over a power cut. What is enabled, and for whom, the driver's own functions for suspend
 * copy and restore.
 */
#include <linux/irq_work.h>
#include "hooks.h"

/**
 * struct rem_plic - what is known when all controllers have been probed
 * @priv: the controller; NULL: there is none
 * @refused: why it could not be restored, or NULL
 */
static struct {
	const struct plic_priv *priv;
	const char *refused;
} rem_plic __ro_after_init;

static int __init rem_plic_look(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		const struct plic_handler *handler =
			per_cpu_ptr(&plic_handlers, cpu);

		if (!handler->present)
			continue;
		if (rem_plic.priv && handler->priv != rem_plic.priv)
			rem_plic.refused = "there is more than one PLIC";
		rem_plic.priv = handler->priv;
	}
	return 0;
}
late_initcall(rem_plic_look);

/** rem_plic_refused - Return: why it could not be restored, or NULL. Context: any. */
const char *rem_plic_refused(void)
{
	return rem_plic.refused;
}

/** rem_plic_registers - Return: how many registers rem_plic_save() reads. */
unsigned int rem_plic_registers(void)
{
	if (!rem_plic.priv)
		return 0;
	return rem_plic.priv->nr_irqs +
	       num_present_cpus() *
		       DIV_ROUND_UP(rem_plic.priv->nr_irqs + 1, 32);
}

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

/**
 * rem_plic_go_cpu - let this hart have its interrupts
 *
 * What is enabled for it, again: firmware that starts a hart disables all of that, and
 * may do so after rem_plic_go().
 *
 * Context: Go, the hart itself, interrupts off.
 */
void rem_plic_go_cpu(void)
{
	struct plic_handler *handler = this_cpu_ptr(&plic_handlers);
	unsigned int i;

	if (!handler->present)
		return;
	raw_spin_lock(&handler->enable_lock);
	for (i = 0; i < DIV_ROUND_UP(handler->priv->nr_irqs + 1, 32); i++)
		writel(handler->enable_save[i],
		       handler->enable_base + i * sizeof(u32));
	raw_spin_unlock(&handler->enable_lock);
	plic_set_threshold(handler, PLIC_ENABLE_THRESHOLD);
}

/*
 * The controller has no register that makes a wire pending, so the handlers are called
 * as if each wire of this hart had been up. One that is masked is not left out: its
 * handler may run in a thread, which goes on and has looked already.
 */
static void rem_plic_handle(struct irq_work *work)
{
	struct plic_handler *handler = this_cpu_ptr(&plic_handlers);
	unsigned int hwirq;
	u32 word;

	for (hwirq = 1; hwirq <= handler->priv->nr_irqs; hwirq++) {
		word = READ_ONCE(handler->enable_save[hwirq / 32]);
		if (word & BIT(hwirq % 32))
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
