// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices that generic power management would lose, since their driver has no callback
 * that sets them up again: it takes such a Stop for a success, and the device is dead
 * after Go. A machine with one begins none.
 *
 * A function that its driver has not enabled is only its configuration space, which is
 * restored by the PCI core.
 */
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pm.h>
#include <linux/string.h>
#include "../machine.h"
#include "resume.h"

/* Held while what is found is told. */
static DEFINE_MUTEX(rem_lost_mutex);

static bool rem_pm_restores(const struct device *dev,
			    const struct dev_pm_ops *pm)
{
	return dev->pm_domain ||
	       (pm && (pm->restore || pm->restore_early || pm->restore_noirq));
}

/* Returns the name of the driver that loses a function, or NULL. Context: locked. */
static const char *rem_lost_by(struct pci_dev *pdev)
{
	const struct pci_driver *driver = pdev->driver;

	if (!driver || pci_is_bridge(pdev) || !pci_is_enabled(pdev))
		return NULL;
	if (rem_virtio_is(pdev))
		return rem_virtio_lost_by(pdev);
	if (driver->suspend || driver->resume ||
	    rem_pm_restores(&pdev->dev, driver->driver.pm))
		return NULL;
	return driver->name;
}

/*
 * Writes "" if nothing is lost of this function. Returns false if its driver is just
 * being bound. Context: locked, if it is not.
 */
static bool rem_lost_name(struct pci_dev *pdev, bool wait, char *name)
{
	struct device *inner = rem_virtio_is(pdev) ? rem_virtio_device(pdev) :
						     NULL;
	const char *driver;

	if (inner && wait)
		device_lock(inner);
	else if (inner && !device_trylock(inner))
		return false;
	driver = rem_lost_by(pdev);
	name[0] = '\0';
	if (driver)
		snprintf(name, REM_BLOCKER_BYTES, "%s of %s", driver,
			 pci_name(pdev));
	if (inner)
		device_unlock(inner);
	return true;
}

static bool rem_lost_look(struct pci_dev *pdev, bool wait, char *name,
			  struct notifier_block *notifier)
{
	bool seen;

	if (wait)
		device_lock(&pdev->dev);
	else if (!device_trylock(&pdev->dev))
		return false;
	if (notifier && rem_virtio_is(pdev))
		rem_virtio_watch(pdev, notifier);
	seen = rem_lost_name(pdev, wait, name);
	device_unlock(&pdev->dev);
	return seen;
}

/**
 * rem_lost_check - look for a device that generic power management would lose
 * @notifier: told of changes on the virtio bus from now on, or NULL: wait for drivers
 *	that are just being bound, as generic power management does
 *
 * Context: process; with a notifier one at a time.
 * Return: 0; -EOPNOTSUPP if there is one; -EAGAIN if one could not be seen.
 */
int rem_lost_check(struct notifier_block *notifier)
{
	char name[REM_BLOCKER_BYTES] = "";
	struct pci_dev *pdev = NULL;
	bool wait = !notifier;
	bool seen = true;

	mutex_lock(&rem_lost_mutex);
	for_each_pci_dev(pdev) {
		seen &= rem_lost_look(pdev, wait, name, notifier);
		if (name[0]) {
			pci_dev_put(pdev);
			break;
		}
	}
	/* Of what is not seen yet it stays as it was. */
	if (seen || name[0])
		rem_machine_loses(name);
	mutex_unlock(&rem_lost_mutex);
	if (name[0])
		return -EOPNOTSUPP;
	return seen ? 0 : -EAGAIN;
}
