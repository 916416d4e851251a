// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices whose driver can recover them after a slot reset. A power cut is such a
 * reset: the driver's callbacks are called as after a PCIe error (frozen, slot
 * reset, resume). Stop does nothing for such a device.
 *
 * If the power fails in a callback, the callback continues after Go with a device that
 * has lost its state again. It ends, since drivers wait for devices with a limit, and
 * then the device is recovered once more. The NVMe driver waits for minutes, and then
 * gives its disks up, so it has a restart of its own (hooks/nvme_restart.h).
 */
#include <linux/device.h>
#include <linux/pci.h>
#include <linux/string.h>
#include "../hooks/hooks.h"
#include "../machine.h"
#include "resume.h"

static bool rem_nvme_is(struct pci_dev *pdev)
{
	return IS_BUILTIN(CONFIG_BLK_DEV_NVME) &&
	       !strcmp(pdev->driver->name, "nvme");
}

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
	u32 life;

	if (!rem_recover_supported(pdev))
		return -ENODEV;
	if (rem_nvme_is(pdev))
		return rem_nvme_restart(pdev);
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
	/* A driver was told once that its device is lost; it may be lost again. */
	do {
		life = rem_devices_life();
		verdict = handlers->slot_reset(pdev);
	} while (verdict != PCI_ERS_RESULT_RECOVERED &&
		 life != rem_devices_life());
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
 * Return: 0, -EIO if recovery fails, -EAGAIN if the power failed meanwhile, or
 * -ENODEV if no driver is bound any more.
 */
int rem_recover(struct pci_dev *pdev)
{
	int err;

	device_lock(&pdev->dev);
	err = rem_recover_locked(pdev);
	device_unlock(&pdev->dev);
	return err;
}
