/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/irqchip/irq-riscv-imsic-early.c: a hart's controller of incoming
 * messages after a power cut.
 */
#include "hooks.h"

/**
 * rem_imsic_go - enable what the kernel has enabled
 *
 * As when a hart is started, but for what is in memory.
 *
 * Context: Go, the hart itself, interrupts off.
 */
void rem_imsic_go(void)
{
	if (!imsic)
		return;
	__imsic_id_set_enable(IMSIC_IPI_ID);
	imsic_local_sync_all(true);
	imsic_local_delivery(true);
}

/**
 * rem_imsic_repeat - make everything pending that is enabled
 *
 * What was pending is lost. Which IPIs were sent is in memory; the message behind them
 * is one.
 *
 * Context: Go, the hart itself, interrupts off.
 */
void rem_imsic_repeat(void)
{
	struct imsic_local_priv *lpriv;
	unsigned int id;

	if (!imsic)
		return;
	lpriv = this_cpu_ptr(imsic->lpriv);
	for (id = 1; id <= imsic->global.nr_ids; id++)
		if (id == IMSIC_IPI_ID || READ_ONCE(lpriv->vectors[id].enable))
			__imsic_eix_update(id, 1, true, true);
}
