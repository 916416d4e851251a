// SPDX-License-Identifier: GPL-2.0-only
/*
 * The power monitor's wire: a 16550 behind PCI. No driver is bound to it, so Stop and Go
 * take it for a function that only has its configuration restored.
 */
#include <linux/init.h>
#include <linux/io.h>
#include <linux/pci.h>
#include "../stop/stop.h"

/* QEMU's pci-serial. */
#define REM_WIRE_VENDOR 0x1b36
#define REM_WIRE_DEVICE 0x0002
#define REM_WIRE_BAR 0

static void __iomem *rem_wire;
static int rem_wire_number = -ENODEV;

/** rem_wire_in - read a register. Context: any. Return: its value. */
u8 rem_wire_in(unsigned int reg)
{
	return ioread8(rem_wire + reg);
}

/** rem_wire_out - write a register. Context: any. */
void rem_wire_out(unsigned int reg, u8 value)
{
	iowrite8(value, rem_wire + reg);
}

/**
 * rem_wire_prepare - find the wire
 *
 * Before the list of functions is made, which has a copy of what is enabled.
 *
 * Context: process, once, when all drivers have probed.
 */
void __init rem_wire_prepare(void)
{
	struct pci_dev *pdev;

	/* It stays as long as the kernel. */
	pdev = pci_get_device(REM_WIRE_VENDOR, REM_WIRE_DEVICE, NULL);
	if (!pdev || pci_enable_device(pdev))
		return;
	rem_wire = pci_iomap(pdev, REM_WIRE_BAR, 0);
	if (!rem_wire)
		return;
	/* The bus does it when it binds a driver. */
	pci_assign_irq(pdev);
	rem_wire_number = pdev->irq ?: -ENODEV;
}

/** rem_wire_irq - Return: the wire's interrupt, or a negative errno. Context: process. */
int __init rem_wire_irq(void)
{
	return rem_wire_number;
}
