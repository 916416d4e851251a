// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices whose driver is asked to suspend them after Go, and then to resume them as from
 * hibernation. By the first it forgets what a device knew that has lost its state, by the
 * second it sets the device up. Stop does nothing for such a device: it only leaves the
 * bus, like all others.
 *
 * What is below a device in the tree, such as a keyboard below a USB controller, is
 * suspended before it and resumed after it. Generic power management does the same with
 * all devices, with programs frozen, before power is lost; here programs run, and the
 * device answers nothing. So only drivers that bear both are in the list (decide.c).
 *
 * If that fails, also because the power failed again meanwhile, the driver is unbound and
 * bound once more: programs see the device go and come back.
 */
#include <linux/device.h>
#include <linux/pci.h>
#include <linux/pm.h>
#include <linux/pm_runtime.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>
#include "../machine.h"
#include "decide.h"
#include "resume.h"

/* Of a USB controller with its hubs. */
#define REM_TREE_MAX 128
#define REM_BUSES_MAX 4

/* A device before those below it. */
struct rem_tree {
	unsigned int count;
	bool is_full;
	struct device *devices[REM_TREE_MAX];
};

/* Where struct dev_pm_ops has the callback of one phase. */
struct rem_phase {
	size_t offset;
	bool is_upwards; /* a device after those below it */
};

static const struct rem_phase rem_phases[] = {
	{ offsetof(const struct dev_pm_ops, prepare), false },
	{ offsetof(const struct dev_pm_ops, freeze), true },
	{ offsetof(const struct dev_pm_ops, freeze_late), true },
	{ offsetof(const struct dev_pm_ops, freeze_noirq), true },
	{ offsetof(const struct dev_pm_ops, restore_noirq), false },
	{ offsetof(const struct dev_pm_ops, restore_early), false },
	{ offsetof(const struct dev_pm_ops, restore), false },
};

static struct {
	const struct bus_type *bus;
	struct notifier_block notifier;
} rem_buses[REM_BUSES_MAX];

static int rem_tree_add(struct device *dev, void *tree_)
{
	struct rem_tree *tree = tree_;

	if (tree->count == REM_TREE_MAX) {
		tree->is_full = true;
		return -ENOSPC;
	}
	tree->devices[tree->count++] = get_device(dev);
	return device_for_each_child(dev, tree, rem_tree_add);
}

static void rem_tree_drop(struct rem_tree *tree)
{
	while (tree->count)
		put_device(tree->devices[--tree->count]);
	kfree(tree);
}

/* Returns NULL without memory, or if there are too many devices. */
static struct rem_tree *rem_tree_of(struct device *top)
{
	struct rem_tree *tree = kzalloc(sizeof(*tree), GFP_KERNEL);

	if (!tree)
		return NULL;
	rem_tree_add(top, tree);
	if (!tree->is_full)
		return tree;
	rem_tree_drop(tree);
	return NULL;
}

/* A device that comes later on the bus may be one that the list does not have. */
static bool rem_bus_watch(const struct bus_type *bus, notifier_fn_t changed)
{
	unsigned int i;

	for (i = 0; i < REM_BUSES_MAX; i++) {
		if (rem_buses[i].bus == bus)
			return true;
		if (rem_buses[i].bus)
			continue;
		rem_buses[i].notifier.notifier_call = changed;
		if (bus_register_notifier(bus, &rem_buses[i].notifier))
			return false;
		rem_buses[i].bus = bus;
		return true;
	}
	return false;
}

static bool rem_below_kept(const struct device *dev, notifier_fn_t changed)
{
	if (!dev->bus)
		return true;
	if (!rem_bus_watch(dev->bus, changed))
		return false;
	return !dev->driver ||
	       rem_below_returned(dev->bus->name, dev->driver->name) ||
	       rem_driver_kept(dev->bus->name, dev->driver->name);
}

/**
 * rem_return_supported - whether rem_return() can restart a function
 * @pdev: the function
 * @changed: called when a device on a bus below it changes
 *
 * Context: process, device locked, one at a time.
 * Return: true if it can.
 */
bool rem_return_supported(struct pci_dev *pdev, notifier_fn_t changed)
{
	struct rem_tree *tree;
	bool is_kept;
	unsigned int i;

	if (!rem_pci_returned(pdev->driver->name))
		return false;
	tree = rem_tree_of(&pdev->dev);
	is_kept = tree;
	for (i = 1; is_kept && i < tree->count; i++)
		is_kept = rem_below_kept(tree->devices[i], changed);
	if (tree)
		rem_tree_drop(tree);
	return is_kept;
}

/* As the core of power management chooses. */
static const struct dev_pm_ops *rem_pm_ops(const struct device *dev)
{
	if (dev->pm_domain)
		return &dev->pm_domain->ops;
	if (dev->type && dev->type->pm)
		return dev->type->pm;
	if (dev->class && dev->class->pm)
		return dev->class->pm;
	return dev->bus ? dev->bus->pm : NULL;
}

static int rem_phase_run(struct device *dev, const struct rem_phase *phase)
{
	const struct dev_pm_ops *ops = rem_pm_ops(dev);
	int (*callback)(struct device *dev) = NULL;

	if (ops)
		memcpy(&callback, (const char *)ops + phase->offset,
		       sizeof(callback));
	ops = dev->driver ? dev->driver->pm : NULL;
	if (!callback && ops)
		memcpy(&callback, (const char *)ops + phase->offset,
		       sizeof(callback));
	return callback ? callback(dev) : 0;
}

/* All devices, whatever becomes of one. Returns the first error. */
static int rem_tree_run(const struct rem_tree *tree,
			const struct rem_phase *phase)
{
	unsigned int i;
	int first = 0;

	for (i = 0; i < tree->count; i++) {
		unsigned int at = phase->is_upwards ? tree->count - 1 - i : i;
		struct device *dev = tree->devices[at];
		int err = rem_phase_run(dev, phase);

		if (err < 0 && !first) {
			dev_warn(dev, "remanence: not suspended or resumed: %pe\n",
				 ERR_PTR(err));
			first = err;
		}
	}
	return first;
}

static void rem_tree_complete(const struct rem_tree *tree)
{
	unsigned int i;

	for (i = tree->count; i-- > 0;) {
		struct device *dev = tree->devices[i];
		const struct dev_pm_ops *ops = rem_pm_ops(dev);

		if ((!ops || !ops->complete) && dev->driver)
			ops = dev->driver->pm;
		if (i)
			device_lock(dev);
		if (ops && ops->complete)
			ops->complete(dev);
		if (i)
			device_unlock(dev);
	}
}

/*
 * All of them are locked from the first callback to the last: a hub would take what is
 * behind it for gone as soon as it works itself. Context: the first device is locked.
 */
static int rem_tree_return(const struct rem_tree *tree)
{
	unsigned int i;
	int err = 0, err_of_phase;

	/* None of them is suspended by itself meanwhile. */
	for (i = 0; i < tree->count; i++) {
		pm_runtime_get_noresume(tree->devices[i]);
		pm_runtime_barrier(tree->devices[i]);
	}
	for (i = 1; i < tree->count; i++)
		device_lock(tree->devices[i]);
	for (i = 0; i < ARRAY_SIZE(rem_phases); i++) {
		err_of_phase = rem_tree_run(tree, &rem_phases[i]);
		err = err ?: err_of_phase;
	}
	for (i = tree->count; i-- > 1;)
		device_unlock(tree->devices[i]);
	rem_tree_complete(tree);
	for (i = 0; i < tree->count; i++)
		pm_runtime_put(tree->devices[i]);
	return err;
}

/*
 * Whether the USB core has given a controller up, which is no error of its callbacks: so
 * it does when the power fails while a command waits for its answer.
 */
static bool rem_is_given_up(struct pci_dev *pdev)
{
	struct usb_hcd *hcd = pci_get_drvdata(pdev);

	return !strcmp(pdev->driver->name, "xhci_hcd") && hcd && HCD_DEAD(hcd);
}

/* Context: device locked. */
static int rem_return_locked(struct pci_dev *pdev)
{
	const struct pci_error_handlers *handlers;
	struct rem_tree *tree;
	int err;

	if (!pdev->driver || !rem_pci_returned(pdev->driver->name))
		return -ENODEV;
	tree = rem_tree_of(&pdev->dev);
	if (!tree)
		return -ENOMEM;
	handlers = pdev->driver->err_handler;
	/* Else the driver waits for answers. */
	if (handlers && handlers->error_detected)
		handlers->error_detected(pdev, pci_channel_io_frozen);
	err = rem_tree_return(tree);
	rem_tree_drop(tree);
	return err ?: rem_is_given_up(pdev) ? -ESHUTDOWN : 0;
}

/**
 * rem_return - have a function and what is below it suspended and resumed
 * @pdev: a function for which rem_return_supported() was true when armed; its
 *	configuration space is restored, but it does not master the bus
 *
 * Context: process, after Go.
 * Return: 0, -ENODEV if no driver is bound any more, or an errno if the driver could not
 * be bound once more, either.
 */
int rem_return(struct pci_dev *pdev)
{
	int err;

	device_lock(&pdev->dev);
	err = rem_return_locked(pdev);
	device_unlock(&pdev->dev);
	if (!err || err == -ENODEV)
		return err;
	pci_warn(pdev, "remanence: its driver is bound once more: %pe\n",
		 ERR_PTR(err));
	return device_reprobe(&pdev->dev);
}
