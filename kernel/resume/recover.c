// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices whose driver can recover them after a slot reset. A power cut is such a
 * reset: the driver's callbacks are called as after a PCIe error (frozen, slot
 * reset, resume). Stop does nothing for such a device.
 */
#include <linux/device.h>
#include <linux/pci.h>
#include "resume.h"

/**
 * rem_recover_supported - whether the driver of a function has all callbacks
 * @pdev: the function
 *
 * Context: any.
 * Return: true if it has.
 */
bool rem_recover_supported(struct pci_dev *pdev)
{
	const struct pci_error_handlers *handlers;

	if (!pdev->driver)
		return false;
	handlers = pdev->driver->err_handler;
	return handlers && handlers->error_detected && handlers->slot_reset &&
	       handlers->resume;
}

/* Context: device locked. */
static int rem_recover_locked(struct pci_dev *pdev)
{
	const struct pci_error_handlers *handlers;
	pci_ers_result_t verdict;
	bool irq_managed = pdev->irq_managed;

	if (!rem_recover_supported(pdev))
		return -ENODEV;
	handlers = pdev->driver->err_handler;
	pdev->error_state = pci_channel_io_frozen;
	/*
	 * Most drivers disable their device here. Without MSI that would free
	 * an interrupt that the driver has requested and continues to use.
	 */
	pdev->irq_managed = 0;
	verdict = handlers->error_detected(pdev, pci_channel_io_frozen);
	pdev->irq_managed = irq_managed;
	pdev->error_state = pci_channel_io_normal;
	if (verdict == PCI_ERS_RESULT_DISCONNECT)
		return -EIO;
	verdict = handlers->slot_reset(pdev);
	if (verdict != PCI_ERS_RESULT_RECOVERED)
		return -EIO;
	handlers->resume(pdev);
	return 0;
}

/**
 * rem_recover - let a driver recover its device
 * @pdev: a function for which rem_recover_supported() was true when armed; its
 *	configuration space is restored, but it does not master the bus
 *
 * Context: process, after Go.
 * Return: 0, -EIO if recovery fails, or -ENODEV if no driver is bound any
 * more.
 */
int rem_recover(struct pci_dev *pdev)
{
	int err;

	device_lock(&pdev->dev);
	err = rem_recover_locked(pdev);
	device_unlock(&pdev->dev);
	return err;
}
