// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices that are not PCI functions: those of the platform and of PnP. Stop does
 * nothing for them; Go restores those of drivers that it knows (decide.c). With another
 * one the machine uses stop=dpm, also if its driver is bound later.
 */
#include <linux/device.h>
#include <linux/init.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/pnp.h>
#include <linux/printk.h>
#include "../machine.h"
#include "decide.h"
#include "resume.h"

/* Whether returned.c judges it, with the PCI function above it. */
static bool rem_other_is_below(const struct device *dev)
{
	const struct device *above = dev->parent;

	return above && dev_is_pci(above) && above->driver &&
	       rem_pci_returned(above->driver->name);
}

static bool rem_other_kept(const struct device *dev)
{
	return !dev->driver || rem_other_is_below(dev) ||
	       rem_driver_kept(dev->bus->name, dev->driver->name);
}

static int rem_other_check(struct device *dev, void *blocker)
{
	if (rem_other_kept(dev))
		return 0;
	*(const char **)blocker = dev_name(dev);
	return -EOPNOTSUPP;
}

static int rem_other_bound(struct notifier_block *nb, unsigned long what,
			   void *device)
{
	struct device *dev = device;

	if (what != BUS_NOTIFY_BIND_DRIVER || rem_other_kept(dev))
		return NOTIFY_DONE;
	if (!rem.blocked)
		pr_warn("remanence: using stop=dpm because of %s\n",
			dev_name(dev));
	rem_use_dpm(dev->driver->name);
	return NOTIFY_DONE;
}

static struct notifier_block rem_platform_notifier = {
	.notifier_call = rem_other_bound,
};

#ifdef CONFIG_PNP
static struct notifier_block rem_pnp_notifier = {
	.notifier_call = rem_other_bound,
};

static int __init rem_pnp_prepare(const char **ret_blocker)
{
	const struct bus_type *watched = NULL;
	struct pnp_dev *pnp;
	int err;

	pnp_for_each_dev(pnp) {
		if (!watched) {
			watched = pnp->dev.bus;
			bus_register_notifier(watched, &rem_pnp_notifier);
		}
		err = rem_other_check(&pnp->dev, ret_blocker);
		if (err)
			return err;
	}
	return 0;
}
#else
static int __init rem_pnp_prepare(const char **ret_blocker)
{
	return 0;
}
#endif

/**
 * rem_others_prepare - look for devices that the fast path cannot restart
 * @ret_blocker: on errors set to the name of one
 *
 * Context: process, once.
 * Return: 0 or -EOPNOTSUPP.
 */
int __init rem_others_prepare(const char **ret_blocker)
{
	int err;

	bus_register_notifier(&platform_bus_type, &rem_platform_notifier);
	err = bus_for_each_dev(&platform_bus_type, NULL, ret_blocker,
			       rem_other_check);
	return err ?: rem_pnp_prepare(ret_blocker);
}
