// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI functions in Stop and Go.
 *
 * Stop clears the bus master bit of each function, and reads its command register
 * once to wait for posted writes; then that of bridges, from the leaves to the root.
 * The configuration space was copied when the machine was armed. Go writes the copy
 * back, bridges first, with the registers of capabilities (pci_caps.c), writes the
 * interrupt vectors from the kernel's descriptors, and starts the device as its kind
 * requires. Host bridges stay as firmware has set them up: the same bits may decode
 * main memory.
 */
#include <linux/msi.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include "../machine.h"
#include "resume.h"

#define REM_CONFIG_WORDS 16
/* One queue for each CPU, and a few others. */
#define REM_VECTORS_MAX (NR_CPUS + 8)

enum rem_pci_kind {
	REM_PCI_HOST,		/* a host bridge, which is left alone */
	REM_PCI_IDLE,		/* no driver: configuration space only */
	REM_PCI_BRIDGE,
	REM_PCI_VIRTIO,
	REM_PCI_RECOVER,	/* restarted by error recovery of its driver */
};

struct rem_pci {
	struct pci_dev *pdev;
	enum rem_pci_kind kind;
	u32 config[REM_CONFIG_WORDS];
	struct rem_pci_caps caps;
	int err;		/* of its restart */
	unsigned int vectors;
	unsigned int irq[REM_VECTORS_MAX];
};

/* A bridge comes before the functions behind it. */
static struct rem_pci *rem_pci;
static unsigned int rem_pci_count;

/* Counts from one: zero is no life. */
static u32 rem_pci_life = 1;

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
	if (rem_virtio_is(pdev) && rem_virtio_supported(pdev))
		return REM_PCI_VIRTIO;
	if (rem_recover_supported(pdev))
		return REM_PCI_RECOVER;
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
 * The list was made when the machine was armed. If a function or its driver is
 * added or removed later, only generic power management knows all functions. So it
 * is with drivers of the virtio bus: their queues and vectors are new.
 */
static int rem_pci_changed(struct notifier_block *nb, unsigned long what,
			   void *device)
{
	switch (what) {
	case BUS_NOTIFY_ADD_DEVICE:
	case BUS_NOTIFY_DEL_DEVICE:
	case BUS_NOTIFY_BIND_DRIVER:
	case BUS_NOTIFY_UNBIND_DRIVER:
		if (rem.stop_mode == REM_MODE_FAST)
			pr_warn("remanence: using stop=dpm because %s has changed\n",
				dev_name(device));
		rem_use_dpm("a PCI function that has changed");
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block rem_pci_notifier = {
	.notifier_call = rem_pci_changed,
};

static struct notifier_block rem_virtio_notifier = {
	.notifier_call = rem_pci_changed,
};

static unsigned int rem_pci_functions(void)
{
	struct pci_dev *pdev = NULL;
	unsigned int count = 0;

	for_each_pci_dev(pdev)
		count++;
	return count;
}

/**
 * rem_devices_prepare - list all PCI functions and copy their configuration
 * @ret_blocker: on errors set to the function that the fast path cannot restart
 *
 * Context: process, once; no function is added or removed meanwhile.
 * Return: 0, -EOPNOTSUPP, -ENOMEM, or -ENOSPC if a function has too many vectors.
 */
int __init rem_devices_prepare(const char **ret_blocker)
{
	unsigned int word, max = rem_pci_functions();
	struct pci_dev *pdev = NULL;
	int kind, err;

	rem_pci = kvcalloc(max, sizeof(*rem_pci), GFP_KERNEL);
	if (!rem_pci) {
		*ret_blocker = "the list of PCI functions";
		return -ENOMEM;
	}
	for_each_pci_dev(pdev) {
		struct rem_pci *slot = &rem_pci[rem_pci_count];

		kind = rem_pci_count == max ? -EAGAIN : rem_pci_kind(pdev);
		if (kind >= 0) {
			slot->pdev = pdev;
			err = rem_pci_vectors_list(slot);
			if (err)
				kind = err;
		}
		if (kind < 0) {
			*ret_blocker = pci_name(pdev);
			pci_dev_put(pdev);
			return kind;
		}
		pci_dev_get(pdev);
		slot->kind = kind;
		if (kind == REM_PCI_VIRTIO)
			rem_virtio_watch(pdev, &rem_virtio_notifier);
		for (word = 0; word < REM_CONFIG_WORDS; word++)
			pci_read_config_dword(pdev, word * 4,
					      &slot->config[word]);
		rem_pci_caps_prepare(pdev, &slot->caps);
		rem_pci_count++;
	}
	return 0;
}

/** rem_devices_count - Return: number of PCI functions in the list. */
unsigned int rem_devices_count(void)
{
	return rem_pci_count;
}

static bool rem_pci_masters(const struct rem_pci *slot)
{
	return slot->kind != REM_PCI_HOST &&
	       slot->config[PCI_COMMAND / 4] & PCI_COMMAND_MASTER;
}

static void rem_pci_stop(const struct rem_pci *slot)
{
	pci_write_config_word(slot->pdev, PCI_COMMAND,
			      (u16)slot->config[PCI_COMMAND / 4] &
				      ~PCI_COMMAND_MASTER);
}

/**
 * rem_devices_stop - keep devices from writing to memory
 *
 * Context: Stop, one CPU, interrupts off.
 * Return: number of functions stopped.
 */
unsigned int rem_devices_stop(void)
{
	unsigned int i, stopped = 0;
	u16 command;

	for (i = 0; i < rem_pci_count; i++)
		if (rem_pci_masters(&rem_pci[i])) {
			stopped++;
			if (rem_pci[i].kind != REM_PCI_BRIDGE)
				rem_pci_stop(&rem_pci[i]);
		}
	/*
	 * When a read has completed, so have posted writes and all writes that
	 * the device had sent before: for that its bridges still forward.
	 */
	for (i = 0; i < rem_pci_count; i++)
		if (rem_pci_masters(&rem_pci[i]) &&
		    rem_pci[i].kind != REM_PCI_BRIDGE)
			pci_read_config_word(rem_pci[i].pdev, PCI_COMMAND,
					     &command);
	/* A bridge comes before what is behind it, so from the end. */
	for (i = rem_pci_count; i-- > 0;)
		if (rem_pci_masters(&rem_pci[i]) &&
		    rem_pci[i].kind == REM_PCI_BRIDGE)
			rem_pci_stop(&rem_pci[i]);
	return stopped;
}

/* From the end: the command register comes after what it enables. */
static void rem_pci_config_write(const struct rem_pci *slot)
{
	u16 command = slot->config[PCI_COMMAND / 4];
	int word;

	/* No address is decoded while a BAR is half written. */
	pci_write_config_word(slot->pdev, PCI_COMMAND, 0);
	/* The driver sets the bit when it has initialized the device. */
	if (slot->kind == REM_PCI_RECOVER)
		command &= ~PCI_COMMAND_MASTER;

	for (word = REM_CONFIG_WORDS - 1; word > PCI_COMMAND / 4; word--)
		pci_write_config_dword(slot->pdev, word * 4,
				       slot->config[word]);
	/* 16 bits only: ones would clear bits of the status register. */
	pci_write_config_word(slot->pdev, PCI_COMMAND, command);
}

/*
 * Writes the vectors from their descriptors, which hold what was written last.
 * A parked task may hold the mutex of the descriptors' list, so the interrupt
 * numbers were stored when the machine was armed.
 */
static void rem_pci_vectors_write(const struct rem_pci *slot)
{
	struct pci_dev *pdev = slot->pdev;
	struct msi_desc *desc;
	unsigned int i;
	struct msi_msg msg;
	u16 control;

	if (!pdev->msix_enabled && !pdev->msi_enabled)
		return;
	if (pdev->msix_enabled) {
		pci_read_config_word(pdev, pdev->msix_cap + PCI_MSIX_FLAGS,
				     &control);
		control |= PCI_MSIX_FLAGS_ENABLE;
		control &= ~PCI_MSIX_FLAGS_MASKALL;
		pci_write_config_word(pdev, pdev->msix_cap + PCI_MSIX_FLAGS,
				      control);
	}
	for (i = 0; i < slot->vectors; i++) {
		desc = irq_get_msi_desc(slot->irq[i]);
		if (!desc)
			continue;
		msg = desc->msg;
		__pci_write_msi_msg(desc, &msg);
	}
	if (pdev->msi_enabled) {
		pci_read_config_word(pdev, pdev->msi_cap + PCI_MSI_FLAGS,
				     &control);
		pci_write_config_word(pdev, pdev->msi_cap + PCI_MSI_FLAGS,
				      control | PCI_MSI_FLAGS_ENABLE);
	}
}

static void rem_pci_event(const struct rem_pci *slot)
{
	rem_event(REM_EVENT_GO_DEVICE,
		  pci_dev_id(slot->pdev) | (u64)-slot->err << 32);
}

/**
 * rem_devices_life - Return: a number that changes whenever devices lose their state
 *
 * It changes while every CPU is parked or halted.
 *
 * Context: any.
 */
u32 rem_devices_life(void)
{
	return READ_ONCE(rem_pci_life);
}

/**
 * rem_devices_go - restore every function, and start virtio devices
 *
 * Context: Go, one CPU, interrupts off.
 * Return: number of devices started.
 */
unsigned int rem_devices_go(void)
{
	unsigned int i, started = 0;

	WRITE_ONCE(rem_pci_life, rem_pci_life + 1);
	for (i = 0; i < rem_pci_count; i++)
		if (rem_pci[i].kind == REM_PCI_BRIDGE) {
			rem_pci_config_write(&rem_pci[i]);
			rem_pci_caps_go(rem_pci[i].pdev, &rem_pci[i].caps);
			rem_pci_vectors_write(&rem_pci[i]);
		}
	for (i = 0; i < rem_pci_count; i++) {
		struct rem_pci *slot = &rem_pci[i];

		if (slot->kind == REM_PCI_BRIDGE || slot->kind == REM_PCI_HOST)
			continue;
		rem_pci_config_write(slot);
		rem_pci_caps_go(slot->pdev, &slot->caps);
		if (slot->kind != REM_PCI_VIRTIO)
			continue;
		rem_pci_vectors_write(slot);
		slot->err = rem_virtio_go(slot->pdev);
		rem_pci_event(slot);
		started += !slot->err;
	}
	return started;
}

/**
 * rem_devices_finish - the part of the restart of devices that may sleep
 *
 * It ends early if devices have lost their state again: the next one begins with the
 * first device.
 *
 * Context: process, after Go.
 */
void rem_devices_finish(void)
{
	u32 life = rem_devices_life();
	unsigned int i;

	for (i = 0; i < rem_pci_count; i++) {
		struct rem_pci *slot = &rem_pci[i];

		if (slot->kind == REM_PCI_RECOVER) {
			slot->err = rem_recover(slot->pdev);
			rem_pci_event(slot);
		} else if (slot->kind == REM_PCI_VIRTIO && !slot->err) {
			rem_virtio_finish(slot->pdev);
		}
		if (life != rem_devices_life())
			return;
		if (slot->err)
			pci_err(slot->pdev,
				"remanence: not restarted after Go: %pe\n",
				ERR_PTR(slot->err));
	}
}

/** rem_devices_watch - use stop=dpm as soon as the list is out of date. */
void rem_devices_watch(void)
{
	bus_register_notifier(&pci_bus_type, &rem_pci_notifier);
}
