// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether the PCI functions are still those that the loader has described. With a
 * function that was plugged in or taken out, its next description differs, and it
 * refuses the image (invariant 6).
 *
 * The bus is asked, as by the loader (loader/hw/pci.c), not the kernel's list: what was
 * removed from that still answers. A function that was there at boot and that the loader
 * does not see makes no difference, nor one that did not answer then; a virtual one does
 * not answer.
 */
#include <linux/bitmap.h>
#include <linux/jiffies.h>
#include <linux/pci.h>
#include <linux/pm_runtime.h>
#include <linux/workqueue.h>
#include "../machine.h"
#include "resume.h"

#define REM_PCI_BUSES 256
#define REM_PCI_IDS 0x10000

/* A slot may lose its power some time after its function is gone. */
#define REM_DESCRIBED_AGAIN_MS 3000

/* What differs from the description at boot already, by bus, device and function. */
static DECLARE_BITMAP(rem_differed, REM_PCI_IDS);

/* The bus of a function, with power, until rem_pci_bus_put(); NULL: it cannot be asked. */
static struct pci_bus *rem_pci_bus_get(u32 id)
{
	struct pci_bus *bus = pci_find_bus(0, id >> 8 & 0xff);

	if (!bus || !bus->self || pm_runtime_get_sync(&bus->self->dev) >= 0)
		return bus;
	pm_runtime_put_noidle(&bus->self->dev);
	return NULL;
}

static void rem_pci_bus_put(struct pci_bus *bus)
{
	if (bus && bus->self)
		pm_runtime_put(&bus->self->dev);
}

/* Vendor and device; all ones: there is none. */
static u32 rem_pci_ids(struct pci_bus *bus, u32 id)
{
	u32 ids = ~0;

	pci_bus_read_config_dword(bus, id & 0xff, PCI_VENDOR_ID, &ids);
	return ids;
}

/* Whether a function is described, and as what it is. */
static bool rem_desc_has(u32 id, u32 ids)
{
	const struct rem_desc_entry *entry;
	unsigned int i, count;

	entry = rem_record_table(&count);
	for (i = 0; i < count; i++)
		if (entry[i].type == REM_DESC_PCI && entry[i].key == id)
			return lower_32_bits(entry[i].value[0]) == ids;
	return false;
}

static bool rem_pci_is_gone(const struct rem_desc_entry *entry)
{
	struct pci_bus *bus;
	bool is_gone;

	if (entry->type != REM_DESC_PCI)
		return false;
	bus = rem_pci_bus_get(entry->key);
	is_gone = bus && PCI_POSSIBLE_ERROR(rem_pci_ids(bus, entry->key));
	rem_pci_bus_put(bus);
	return is_gone;
}

static u8 rem_pci_byte(struct pci_bus *bus, u32 id, int where)
{
	u8 value = 0;

	pci_bus_read_config_byte(bus, id & 0xff, where, &value);
	return value;
}

/* Its functions, of which the first decides whether there may be others. */
static void rem_pci_scan_device(struct pci_bus *bus, u32 id,
				unsigned long *buses,
				void (*differs)(u32 id))
{
	unsigned int n, functions = 1;

	for (n = 0; n < functions; n++, id++) {
		u32 ids = rem_pci_ids(bus, id);
		u8 type;

		if (PCI_POSSIBLE_ERROR(ids))
			continue;
		type = rem_pci_byte(bus, id, PCI_HEADER_TYPE);
		if (!n && type & PCI_HEADER_TYPE_MFD)
			functions = 8;
		if ((type & PCI_HEADER_TYPE_MASK) == PCI_HEADER_TYPE_BRIDGE)
			set_bit(rem_pci_byte(bus, id, PCI_SECONDARY_BUS), buses);
		if (!rem_desc_has(id, ids))
			differs(id);
	}
}

static void rem_pci_scan_bus(u32 number, unsigned long *buses,
			     void (*differs)(u32 id))
{
	struct pci_bus *bus = rem_pci_bus_get(number << 8);
	u32 devfn;

	for (devfn = 0; bus && devfn < 256; devfn += 8)
		rem_pci_scan_device(bus, number << 8 | devfn, buses, differs);
	rem_pci_bus_put(bus);
}

/*
 * Calls @differs for each function that is new or gone. Context: no function is added or
 * removed meanwhile.
 */
static void rem_described_scan(void (*differs)(u32 id))
{
	DECLARE_BITMAP(buses, REM_PCI_BUSES) = { 1 };
	const struct rem_desc_entry *entry;
	unsigned int i, count;
	u32 number;

	/* A bus behind a bridge has a greater number. */
	for_each_set_bit(number, buses, REM_PCI_BUSES)
		rem_pci_scan_bus(number, buses, differs);
	entry = rem_record_table(&count);
	for (i = 0; i < count; i++)
		if (rem_pci_is_gone(&entry[i]))
			differs(entry[i].key);
}

static void rem_described_note(u32 id)
{
	set_bit(id, rem_differed);
}

static u32 rem_different;
static bool rem_is_different;

static void rem_described_find(u32 id)
{
	if (test_bit(id, rem_differed))
		return;
	rem_different = id;
	rem_is_different = true;
}

static void rem_described_again(struct work_struct *unused);
static DECLARE_DELAYED_WORK(rem_described_work, rem_described_again);

/** rem_described_check_later - functions have changed. Context: any. */
void rem_described_check_later(void)
{
	mod_delayed_work(system_freezable_wq, &rem_described_work,
			 msecs_to_jiffies(REM_DESCRIBED_AGAIN_MS));
}

/**
 * rem_described_check - compare the machine with its description
 *
 * Context: process; no function is added or removed meanwhile.
 */
void rem_described_check(void)
{
	char name[REM_BLOCKER_BYTES] = "";

	rem_is_different = false;
	rem_described_scan(rem_described_find);
	if (rem_is_different)
		snprintf(name, sizeof(name), "0000:%02x:%02x.%x",
			 rem_different >> 8 & 0xff, PCI_SLOT(rem_different),
			 PCI_FUNC(rem_different));
	rem_machine_differs(name);
}

/* As long as it differs: nobody tells when that is over, as after a reset of a function. */
static void rem_described_again(struct work_struct *unused)
{
	pci_lock_rescan_remove();
	rem_described_check();
	pci_unlock_rescan_remove();
	if (rem.differs[0])
		rem_described_check_later();
}

/** rem_described_prepare - note what differs at boot. Context: process, once. */
void rem_described_prepare(void)
{
	pci_lock_rescan_remove();
	rem_described_scan(rem_described_note);
	pci_unlock_rescan_remove();
}
