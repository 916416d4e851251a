// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI functions in Stop and Go, by the list of pci_list.c.
 *
 * Stop clears the bus master bit of each function, and reads its command register
 * once to wait for posted writes; then that of bridges, from the leaves to the root.
 * Go writes the copy of the configuration space back, bridges first, with the
 * registers of capabilities (pci_caps.c), writes the interrupt vectors from the
 * kernel's descriptors, and starts the device as its kind requires. Host bridges stay
 * as firmware has set them up: the same bits may decode main memory.
 */
#include <linux/msi.h>
#include <linux/pci.h>
#include <linux/preempt.h>
#include "../machine.h"
#include "resume.h"

/* Counts from one: zero is no life. */
static u32 rem_pci_life = 1;
/* Devices wait for their drivers, and do not master the bus yet. */
static bool rem_pci_unfinished;

/** rem_devices_count - Return: number of PCI functions in the list. */
unsigned int rem_devices_count(void)
{
	return READ_ONCE(rem_pci_count);
}

static bool rem_pci_masters(const struct rem_pci *slot)
{
	/* A driver may have had it off when it was copied, while it reset the device. */
	return slot->kind != REM_PCI_HOST &&
	       (slot->config[PCI_COMMAND / 4] & PCI_COMMAND_MASTER ||
		slot->pdev->is_busmaster);
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
	if (slot->kind == REM_PCI_RECOVER || slot->kind == REM_PCI_RETURN)
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
 * rem_devices_settled - Return: whether devices are as their drivers have set them up
 * @life: the value of rem_devices_life() from when on they were
 */
bool rem_devices_settled(u32 life)
{
	return life == rem_devices_life() && !READ_ONCE(rem_pci_unfinished);
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
	WRITE_ONCE(rem_pci_unfinished, true);
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

static void rem_pci_finish(void)
{
	u32 life = rem_devices_life();
	unsigned int i;

	for (i = 0; i < rem_pci_count; i++) {
		struct rem_pci *slot = &rem_pci[i];

		if (slot->kind == REM_PCI_RECOVER) {
			slot->err = rem_recover(slot->pdev);
			rem_pci_event(slot);
		} else if (slot->kind == REM_PCI_RETURN) {
			slot->err = rem_return(slot->pdev);
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
	/* This CPU is not parked in between. */
	preempt_disable();
	if (life == rem_devices_life())
		WRITE_ONCE(rem_pci_unfinished, false);
	preempt_enable();
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
	rem_pci_list_hold();
	rem_pci_finish();
	rem_pci_list_release();
}
