// SPDX-License-Identifier: GPL-2.0-only
/*
 * The list of PCI functions, by which Stop and Go work: what each is, its interrupt
 * vectors, and a copy of its configuration space.
 *
 * It is made when the machine is armed, and again whenever a function or its driver
 * is added or removed; so it is with drivers of the virtio bus, whose queues and
 * vectors are new. Until the new list is in use the machine uses stop=dpm, since only
 * generic power management knows all functions then.
 */
#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "../machine.h"
#include "resume.h"

/* Drivers come and go in groups. */
#define REM_PCI_SETTLE_MS 100
#define REM_PCI_AGAIN_MS 3000

/* A bridge comes before the functions behind it. */
struct rem_pci *rem_pci;
unsigned int rem_pci_count;

struct rem_pci_list {
	struct rem_pci *slots;
	unsigned int count;
	char blocker[REM_BLOCKER_BYTES];
};

/* Held while the list is used where a Stop may come in between. */
static DEFINE_MUTEX(rem_pci_mutex);
/* Of the number of changes, and of the decision by it. */
static DEFINE_SPINLOCK(rem_pci_lock);
static unsigned int rem_pci_changes;
/* The function that the log has named last. */
static char rem_pci_said[REM_BLOCKER_BYTES];
/* The machine was not told to use another path. */
static bool rem_pci_wanted;

static void rem_pci_renew(struct work_struct *unused);
static DECLARE_DELAYED_WORK(rem_pci_work, rem_pci_renew);

static void rem_pci_renew_later(unsigned int ms)
{
	/* Not while generic power management suspends devices. */
	mod_delayed_work(system_freezable_wq, &rem_pci_work,
			 msecs_to_jiffies(ms));
}

/**
 * rem_devices_changed - the list is out of date
 *
 * Also after generic power management, for which drivers have given interrupts back.
 *
 * Context: process.
 */
void rem_devices_changed(void)
{
	unsigned long flags;

	spin_lock_irqsave(&rem_pci_lock, flags);
	rem_pci_changes++;
	if (rem_pci_wanted)
		rem_mode_hold("a PCI function that has changed");
	spin_unlock_irqrestore(&rem_pci_lock, flags);
	rem_pci_renew_later(REM_PCI_SETTLE_MS);
	rem_described_check_later();
}

static int rem_pci_notify(struct notifier_block *nb, unsigned long what,
			  void *device)
{
	rem_devices_changed();
	return NOTIFY_DONE;
}

static struct notifier_block rem_pci_notifier = {
	.notifier_call = rem_pci_notify,
};

static struct notifier_block rem_virtio_notifier = {
	.notifier_call = rem_pci_notify,
};

/* Returns the kind, or -EOPNOTSUPP if the fast path cannot restart it. */
static int rem_pci_kind(struct pci_dev *pdev)
{
	if (pci_is_bridge(pdev))
		return REM_PCI_BRIDGE;
	/* Virtual functions are gone until the driver makes them again. */
	if (pdev->is_virtfn || pci_num_vf(pdev))
		return -EOPNOTSUPP;
	if (!pdev->driver)
		return pdev->class >> 8 == PCI_CLASS_BRIDGE_HOST ? REM_PCI_HOST :
								   REM_PCI_IDLE;
	if (rem_virtio_is(pdev)) {
		rem_virtio_watch(pdev, &rem_virtio_notifier);
		if (rem_virtio_supported(pdev))
			return REM_PCI_VIRTIO;
	}
	if (rem_recover_supported(pdev))
		return REM_PCI_RECOVER;
	if (rem_return_supported(pdev, rem_pci_notify))
		return REM_PCI_RETURN;
	return -EOPNOTSUPP;
}

/* Returns 0, or -ENOSPC if a function has too many vectors. */
static int rem_pci_vectors_list(struct rem_pci *slot)
{
	int irq;

	slot->vectors = 0;
	if (!slot->pdev->msix_enabled && !slot->pdev->msi_enabled)
		return 0;
	for (;;) {
		irq = pci_irq_vector(slot->pdev, slot->vectors);
		if (irq < 0)
			return 0;
		if (slot->vectors == REM_VECTORS_MAX)
			return -ENOSPC;
		slot->irq[slot->vectors++] = irq;
	}
}

/*
 * Context: device locked. Returns 0, -EOPNOTSUPP, -ENOSPC, or -ENODEV if the function
 * does not answer: it has no power, or is gone.
 */
static int rem_pci_fill(struct rem_pci *slot, struct pci_dev *pdev)
{
	int kind = rem_pci_kind(pdev);
	int word, err;

	if (kind < 0)
		return kind;
	slot->kind = kind;
	slot->pdev = pdev;
	err = rem_pci_vectors_list(slot);
	if (err)
		return err;
	for (word = 0; word < REM_CONFIG_WORDS; word++)
		pci_read_config_dword(pdev, word * 4, &slot->config[word]);
	if (PCI_POSSIBLE_ERROR(slot->config[0]))
		return -ENODEV;
	rem_pci_caps_prepare(pdev, &slot->caps);
	return 0;
}

/* Returns -EAGAIN while a driver is being bound to it, else as rem_pci_fill(). */
static int rem_pci_add(struct rem_pci *slot, struct pci_dev *pdev)
{
	struct device *inner;
	int err = -EAGAIN;

	if (!device_trylock(&pdev->dev))
		return err;
	inner = rem_virtio_is(pdev) ? rem_virtio_device(pdev) : NULL;
	if (!inner || device_trylock(inner)) {
		err = rem_pci_fill(slot, pdev);
		if (inner)
			device_unlock(inner);
	}
	device_unlock(&pdev->dev);
	return err;
}

static unsigned int rem_pci_functions(void)
{
	struct pci_dev *pdev = NULL;
	unsigned int count = 0;

	for_each_pci_dev(pdev)
		count++;
	return count;
}

static void rem_pci_list_drop(struct rem_pci_list *list)
{
	unsigned int i;

	for (i = 0; i < list->count; i++)
		pci_dev_put(list->slots[i].pdev);
	kvfree(list->slots);
}

/*
 * Lists all functions and copies their configuration. Returns 0, or with the name of
 * what is in the way -EAGAIN if that is because it changes, -ENOMEM, or what
 * rem_pci_fill() returns. Context: no function is added or removed meanwhile.
 */
static int rem_pci_list_make(struct rem_pci_list *list)
{
	unsigned int max = rem_pci_functions();
	struct pci_dev *pdev = NULL;
	int err;

	*list = (struct rem_pci_list){};
	list->slots = kvcalloc(max, sizeof(*list->slots), GFP_KERNEL);
	if (!list->slots) {
		strscpy(list->blocker, "the list of PCI functions");
		return -ENOMEM;
	}
	for_each_pci_dev(pdev) {
		err = list->count == max ?
			      -EAGAIN :
			      rem_pci_add(&list->slots[list->count], pdev);
		if (err) {
			strscpy(list->blocker, pci_name(pdev));
			pci_dev_put(pdev);
			return err;
		}
		pci_dev_get(pdev);
		list->count++;
	}
	return 0;
}

/*
 * Takes a list into use, unless something has changed since it was begun: a function,
 * or all of them by a Stop; @list is then the old one. A Stop finds one of them as a
 * whole: it needs this CPU, which has interrupts off. Does not wait for the restart of
 * devices: that may take minutes, in which a Stop by generic power management would wait
 * for this work.
 */
static bool rem_pci_list_use(struct rem_pci_list *list, unsigned int changes,
			     u32 life)
{
	bool is_new;

	if (!mutex_trylock(&rem_pci_mutex))
		return false;
	spin_lock_irq(&rem_pci_lock);
	is_new = rem_pci_changes == changes && rem_devices_settled(life) &&
		 READ_ONCE(rem.state) != REM_STOPPING;
	if (is_new) {
		swap(rem_pci, list->slots);
		swap(rem_pci_count, list->count);
		rem_mode_release();
		rem_pci_said[0] = '\0';
	}
	spin_unlock_irq(&rem_pci_lock);
	mutex_unlock(&rem_pci_mutex);
	return is_new;
}

/* Says so once for each function in a row. */
static void rem_pci_block(const char *blocker, unsigned int changes, int err)
{
	bool is_new;

	spin_lock_irq(&rem_pci_lock);
	is_new = rem_pci_changes == changes;
	if (is_new)
		rem_mode_hold(blocker);
	spin_unlock_irq(&rem_pci_lock);
	if (!is_new || !strcmp(rem_pci_said, blocker))
		return;
	strscpy(rem_pci_said, blocker);
	pr_warn("remanence: using stop=dpm because of %s: %pe\n", blocker,
		ERR_PTR(err));
}

static void rem_pci_list_renew(void)
{
	unsigned int changes = READ_ONCE(rem_pci_changes);
	u32 life = rem_devices_life();
	struct rem_pci_list list;
	int err;

	/* Until then a function may lack its bus master bit. */
	if (!rem_devices_settled(life)) {
		rem_pci_renew_later(REM_PCI_SETTLE_MS);
		return;
	}
	err = rem_pci_list_make(&list);
	/* Before anything is promised again. */
	if (err != -EAGAIN)
		rem_described_check();
	if (!err && !rem_pci_list_use(&list, changes, life))
		err = -EAGAIN;
	if (err && err != -EAGAIN)
		rem_pci_block(list.blocker, changes, err);
	if (err == -EAGAIN)
		rem_pci_renew_later(REM_PCI_SETTLE_MS);
	/* No event tells when a function has power again, or the kernel memory. */
	if (err == -ENODEV || err == -ENOMEM)
		rem_pci_renew_later(REM_PCI_AGAIN_MS);
	rem_pci_list_drop(&list);
}

static void rem_pci_renew(struct work_struct *unused)
{
	pci_lock_rescan_remove();
	if (rem_lost_check(&rem_virtio_notifier) == -EAGAIN)
		rem_pci_renew_later(REM_PCI_SETTLE_MS);
	if (rem_pci_wanted)
		rem_pci_list_renew();
	else
		rem_described_check();
	pci_unlock_rescan_remove();
}

/**
 * rem_devices_prepare - list all PCI functions, now and whenever they change
 * @fast: for stop=fast; the machine uses stop=dpm as long as there is one that the fast
 *	path cannot restart
 *
 * Context: process, once.
 */
void rem_devices_prepare(bool fast)
{
	rem_pci_wanted = fast;
	rem_described_prepare();
	/* Until there is a list. */
	if (fast)
		rem_mode_hold("the list of PCI functions");
	bus_register_notifier(&pci_bus_type, &rem_pci_notifier);
	rem_pci_renew(NULL);
}

/** rem_pci_list_hold - keep the list as it is. Context: process. */
void rem_pci_list_hold(void)
{
	mutex_lock(&rem_pci_mutex);
}

/** rem_pci_list_release - let it be replaced again. Context: process. */
void rem_pci_list_release(void)
{
	mutex_unlock(&rem_pci_mutex);
}
