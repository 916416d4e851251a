// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI functions in Stop and Go.
 *
 * Stop clears the bus master bit of each function, and reads its command register
 * once to wait for posted writes. The configuration space was copied when the
 * machine was armed. Go writes the copy back, bridges first, writes the interrupt
 * vectors from the kernel's descriptors, and starts the device as its kind
 * requires.
 */
#include <linux/msi.h>
#include <linux/pci.h>
#include "../machine.h"
#include "resume.h"

#define REM_CONFIG_WORDS 16
#define REM_PCI_MAX 128
/* One queue for each CPU, and a few others. */
#define REM_VECTORS_MAX (NR_CPUS + 8)

enum rem_pci_kind {
	REM_PCI_IDLE,		/* no driver: configuration space only */
	REM_PCI_BRIDGE,
	REM_PCI_VIRTIO,
	REM_PCI_RECOVER,	/* restarted by error recovery of its driver */
};

static struct rem_pci {
	struct pci_dev *pdev;
	enum rem_pci_kind kind;
	u32 config[REM_CONFIG_WORDS];
	int err;		/* of its restart */
	unsigned int vectors;
	unsigned int irq[REM_VECTORS_MAX];
} rem_pci[REM_PCI_MAX];

static unsigned int rem_pci_count;

/* Returns the kind, or -EOPNOTSUPP if the fast path cannot restart it. */
static int rem_pci_kind(struct pci_dev *pdev)
{
	if (pci_is_bridge(pdev))
		return REM_PCI_BRIDGE;
	if (!pdev->driver)
		return REM_PCI_IDLE;
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

/**
 * rem_devices_prepare - list all PCI functions and copy their configuration
 * @ret_blocker: on errors set to the function that the fast path cannot restart
 *
 * Context: process; no function is added or removed meanwhile.
 * Return: 0, -EOPNOTSUPP, or -ENOSPC if there are too many.
 */
int rem_devices_prepare(const char **ret_blocker)
{
	struct pci_dev *pdev = NULL;
	unsigned int word;
	int kind, err;

	rem_pci_count = 0;
	for_each_pci_dev(pdev) {
		struct rem_pci *slot = &rem_pci[rem_pci_count];

		kind = rem_pci_count == REM_PCI_MAX ? -ENOSPC :
						      rem_pci_kind(pdev);
		if (kind >= 0) {
			slot->pdev = pci_dev_get(pdev);
			err = rem_pci_vectors_list(slot);
			if (err)
				kind = err;
		}
		if (kind < 0) {
			*ret_blocker = pci_name(pdev);
			pci_dev_put(pdev);
			return kind;
		}
		slot->kind = kind;
		for (word = 0; word < REM_CONFIG_WORDS; word++)
			pci_read_config_dword(pdev, word * 4,
					      &slot->config[word]);
		rem_pci_count++;
	}
	return 0;
}

/** rem_devices_count - Return: number of PCI functions in the list. */
unsigned int rem_devices_count(void)
{
	return rem_pci_count;
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

	for (i = 0; i < rem_pci_count; i++) {
		command = rem_pci[i].config[PCI_COMMAND / 4];
		if (!(command & PCI_COMMAND_MASTER))
			continue;
		pci_write_config_word(rem_pci[i].pdev, PCI_COMMAND,
				      command & ~PCI_COMMAND_MASTER);
		stopped++;
	}
	/*
	 * When a read has completed, so have posted writes and all writes that
	 * the device had sent before.
	 */
	for (i = 0; i < rem_pci_count; i++)
		if (rem_pci[i].config[PCI_COMMAND / 4] & PCI_COMMAND_MASTER)
			pci_read_config_word(rem_pci[i].pdev, PCI_COMMAND,
					     &command);
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
 * rem_devices_go - restore every function, and start virtio devices
 *
 * Context: Go, one CPU, interrupts off.
 * Return: number of devices started.
 */
unsigned int rem_devices_go(void)
{
	unsigned int i, started = 0;

	for (i = 0; i < rem_pci_count; i++)
		if (rem_pci[i].kind == REM_PCI_BRIDGE)
			rem_pci_config_write(&rem_pci[i]);
	for (i = 0; i < rem_pci_count; i++) {
		struct rem_pci *slot = &rem_pci[i];

		if (slot->kind == REM_PCI_BRIDGE)
			continue;
		rem_pci_config_write(slot);
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
 * Context: process, after Go.
 */
void rem_devices_finish(void)
{
	unsigned int i;

	for (i = 0; i < rem_pci_count; i++) {
		struct rem_pci *slot = &rem_pci[i];

		if (slot->kind == REM_PCI_RECOVER) {
			slot->err = rem_recover(slot->pdev);
			rem_pci_event(slot);
		} else if (slot->kind == REM_PCI_VIRTIO && !slot->err) {
			rem_virtio_finish(slot->pdev);
		}
		if (slot->err)
			pci_err(slot->pdev,
				"remanence: not restarted after Go: %pe\n",
				ERR_PTR(slot->err));
	}
}

/*
 * The list was made when the machine was armed. If a function or its driver is
 * added or removed later, only generic power management knows all functions.
 */
static int rem_pci_changed(struct notifier_block *nb, unsigned long what,
			   void *device)
{
	switch (what) {
	case BUS_NOTIFY_ADD_DEVICE:
	case BUS_NOTIFY_DEL_DEVICE:
	case BUS_NOTIFY_BIND_DRIVER:
	case BUS_NOTIFY_UNBIND_DRIVER:
		rem.blocker = "a PCI function that has changed";
		WRITE_ONCE(rem.stop_mode, REM_MODE_DPM);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block rem_pci_notifier = {
	.notifier_call = rem_pci_changed,
};

/** rem_devices_watch - use stop=dpm as soon as the list is out of date. */
void rem_devices_watch(void)
{
	bus_register_notifier(&pci_bus_type, &rem_pci_notifier);
}
