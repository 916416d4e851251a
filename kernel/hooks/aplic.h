/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/irqchip/irq-riscv-aplic-main.c: the controller that turns the
 * wires of a platform into messages, over a power cut. The kernel does not know which of
 * its registers have been written, so they are copied.
 */
#include "hooks.h"

#define REM_APLIC_SOURCES_MAX 1024

/**
 * struct rem_aplic - a copy of the registers of the controller
 * @priv: the controller; NULL: there is none
 * @dev: its device, whose probe may be repeated with another @priv
 * @refused: why it could not be restored, or NULL
 * @source: how each wire is sensed
 * @target: where its message goes
 * @enabled: one bit for each
 */
static struct {
	struct aplic_priv *priv;
	struct device *dev;
	const char *refused;
	u32 source[REM_APLIC_SOURCES_MAX];
	u32 target[REM_APLIC_SOURCES_MAX];
	u32 enabled[REM_APLIC_SOURCES_MAX / 32];
} rem_aplic;

static void rem_aplic_found(struct aplic_priv *priv)
{
	if (priv->nr_idcs)
		rem_aplic.refused = "an APLIC gives its interrupts directly";
	else if (rem_aplic.dev && rem_aplic.dev != priv->dev)
		rem_aplic.refused = "there is more than one APLIC";
	else if (priv->nr_irqs >= REM_APLIC_SOURCES_MAX)
		rem_aplic.refused = "an APLIC has too many wires";
	else
		rem_aplic.priv = priv;
	rem_aplic.dev = priv->dev;
}

/** rem_aplic_refused - Return: why it could not be restored, or NULL. Context: any. */
const char *rem_aplic_refused(void)
{
	return rem_aplic.refused;
}

static void __iomem *rem_aplic_at(u32 base, unsigned int n)
{
	return rem_aplic.priv->regs + base + n * sizeof(u32);
}

/** rem_aplic_registers - Return: how many registers rem_aplic_save() reads. */
unsigned int rem_aplic_registers(void)
{
	if (!rem_aplic.priv)
		return 0;
	return 2 * rem_aplic.priv->nr_irqs + rem_aplic.priv->nr_irqs / 32 + 1;
}

/** rem_aplic_save - copy the registers. Context: Stop, one hart, interrupts off. */
void rem_aplic_save(void)
{
	unsigned int i;

	if (!rem_aplic.priv)
		return;
	for (i = 0; i < rem_aplic.priv->nr_irqs; i++) {
		rem_aplic.source[i] =
			readl(rem_aplic_at(APLIC_SOURCECFG_BASE, i));
		/* One that is not in use has no target. */
		if (rem_aplic.source[i])
			rem_aplic.target[i] =
				readl(rem_aplic_at(APLIC_TARGET_BASE, i));
	}
	for (i = 0; i <= rem_aplic.priv->nr_irqs / 32; i++)
		rem_aplic.enabled[i] = readl(rem_aplic_at(APLIC_SETIE_BASE, i));
}

/**
 * rem_aplic_go - restore the registers
 *
 * A wire that is up sends its message when its source is active and enabled.
 *
 * Context: Go, boot CPU, interrupts off.
 */
void rem_aplic_go(void)
{
	unsigned int i;

	if (!rem_aplic.priv)
		return;
	/* First: where messages go is unspecified when their mode changes. */
	aplic_init_hw_global(rem_aplic.priv, true);
	for (i = 0; i < rem_aplic.priv->nr_irqs; i++) {
		writel(rem_aplic.source[i],
		       rem_aplic_at(APLIC_SOURCECFG_BASE, i));
		if (rem_aplic.source[i])
			writel(rem_aplic.target[i],
			       rem_aplic_at(APLIC_TARGET_BASE, i));
	}
	for (i = 0; i <= rem_aplic.priv->nr_irqs / 32; i++)
		writel(rem_aplic.enabled[i], rem_aplic_at(APLIC_SETIE_BASE, i));
	/* What is up already. */
	for (i = 0; i < rem_aplic.priv->nr_irqs; i++)
		if (rem_aplic.source[i])
			writel(i + 1, rem_aplic.priv->regs + APLIC_SETIPNUM_LE);
}
