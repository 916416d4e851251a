/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One request on one queue, polled: virtio 1.0 over PCI (OASIS virtio 1.2,
 * 4.1.4 and 5.2). The rings are in the loader's own memory. DMA addresses are
 * physical: an IOMMU is off until the kernel runs.
 */
#include "virtio_blk.h"

#include "io.h"
#include "paging.h"

#define VENDOR_VIRTIO 0x1af4
#define DEVICE_BLK_TRANSITIONAL 0x1001
#define DEVICE_BLK 0x1042

#define CAPABILITY_VENDOR 0x09
#define CAP_TYPE 3
#define CAP_BAR 4
#define CAP_OFFSET 8
#define CAP_LENGTH 12
#define CAP_NOTIFY_MULTIPLIER 16
#define CFG_COMMON 1
#define CFG_NOTIFY 2
#define CFG_DEVICE 4

/* struct virtio_pci_common_cfg */
#define COMMON_DEVICE_FEATURE_SELECT 0
#define COMMON_DEVICE_FEATURE 4
#define COMMON_DRIVER_FEATURE_SELECT 8
#define COMMON_DRIVER_FEATURE 12
#define COMMON_STATUS 20
#define COMMON_QUEUE_SELECT 22
#define COMMON_QUEUE_SIZE 24
#define COMMON_QUEUE_ENABLE 28
#define COMMON_QUEUE_NOTIFY_OFF 30
#define COMMON_QUEUE_DESC 32
#define COMMON_QUEUE_DRIVER 40
#define COMMON_QUEUE_DEVICE 48
#define COMMON_BYTES 56

#define STATUS_ACKNOWLEDGE 1
#define STATUS_DRIVER 2
#define STATUS_DRIVER_OK 4
#define STATUS_FEATURES_OK 8

/* Feature bits 32 and 33, in the upper word. */
#define FEATURE_HIGH_VERSION_1 1u
#define FEATURE_HIGH_ACCESS_PLATFORM 2u

#define DESC_NEXT 1
#define DESC_WRITE 2
#define REQUEST_GET_ID 8
#define QUEUE_ENTRIES 4

/*
 * QEMU answers from another thread. PAUSE lets that thread run; a device that has
 * not answered after so many is broken.
 */
#define ANSWER_POLLS_MAX 20000000u
#define RESET_POLLS_MAX 1000000u

struct ring_desc {
	u64 address;
	u32 bytes;
	u16 flags;
	u16 next;
};

/* Memory that the device reads and writes. */
struct dma_area {
	struct ring_desc desc[QUEUE_ENTRIES];
	u16 avail_flags, avail_index, avail_ring[QUEUE_ENTRIES];
	u32 pad;
	u16 used_flags, used_index;
	struct {
		u32 id, bytes;
	} used_ring[QUEUE_ENTRIES];
	struct {
		u32 type, reserved;
		u64 sector;
	} request;
	u8 serial[24];
	u8 status;
};

static_assert(offsetof(struct dma_area, used_flags) % 4 == 0);

struct transport {
	volatile u8 *common;
	volatile u8 *notify;
	volatile u8 *device;
	u32 notify_multiplier;
};

static volatile struct dma_area area __attribute__((aligned(4096)));

static u8 get8(volatile u8 *at)
{
	return *at;
}

static void set8(volatile u8 *at, u8 value)
{
	*at = value;
}

static void set16(volatile u8 *at, u16 value)
{
	*(volatile u16 *)at = value;
}

static u16 get16(volatile u8 *at)
{
	return *(volatile u16 *)at;
}

static void set32(volatile u8 *at, u32 value)
{
	*(volatile u32 *)at = value;
}

static u32 get32(volatile u8 *at)
{
	return *(volatile u32 *)at;
}

static void set_address(volatile u8 *at, const volatile void *memory)
{
	u64 phys = (u64)(uintptr_t)memory;

	set32(at, (u32)phys);
	set32(at + 4, (u32)(phys >> 32));
}

bool virtio_blk_is(const struct pci_function *function)
{
	return function->vendor == VENDOR_VIRTIO &&
	       (function->device == DEVICE_BLK ||
		function->device == DEVICE_BLK_TRANSITIONAL);
}

/* Address of @cap's structure, or NULL if it is not mapped. */
static volatile u8 *map_capability(u32 bdf, u32 cap, u32 bytes_min)
{
	u32 bar = pci_read8(bdf, cap + CAP_BAR);
	u32 offset = pci_read32(bdf, cap + CAP_OFFSET);
	u32 bytes = pci_read32(bdf, cap + CAP_LENGTH);
	u64 base;
	u32 low;

	if (bar >= PCI_BARS || bytes < bytes_min)
		return NULL;
	low = pci_read32(bdf, PCI_BAR(bar));
	if (low & 1)
		return NULL;
	base = low & ~15u;
	if ((low & 6) == 4 && bar + 1 < PCI_BARS)
		base |= (u64)pci_read32(bdf, PCI_BAR(bar + 1)) << 32;
	if (!base || !paging_map(base + offset, bytes))
		return NULL;
	return at_phys(base + offset);
}

static bool find_transport(u32 bdf, struct transport *transport)
{
	u32 cap = 0;

	*transport = (struct transport){ .common = NULL };
	while ((cap = pci_capability(bdf, CAPABILITY_VENDOR, cap))) {
		switch (pci_read8(bdf, cap + CAP_TYPE)) {
		case CFG_COMMON:
			transport->common =
				map_capability(bdf, cap, COMMON_BYTES);
			break;
		case CFG_NOTIFY:
			transport->notify = map_capability(bdf, cap, 2);
			transport->notify_multiplier =
				pci_read32(bdf, cap + CAP_NOTIFY_MULTIPLIER);
			break;
		case CFG_DEVICE:
			transport->device = map_capability(bdf, cap, 8);
			break;
		default:
			break;
		}
	}
	return transport->common && transport->notify && transport->device;
}

static bool reset(const struct transport *transport)
{
	set8(transport->common + COMMON_STATUS, 0);
	for (u32 i = 0; i < RESET_POLLS_MAX; i++) {
		if (!get8(transport->common + COMMON_STATUS))
			return true;
		relax();
	}
	return false;
}

static void add_status(const struct transport *transport, u8 bit)
{
	volatile u8 *status = transport->common + COMMON_STATUS;

	set8(status, get8(status) | bit);
}

/* Only the features that are required for any request. */
static bool negotiate(const struct transport *transport)
{
	volatile u8 *common = transport->common;
	u32 high;

	add_status(transport, STATUS_ACKNOWLEDGE);
	add_status(transport, STATUS_DRIVER);
	set32(common + COMMON_DEVICE_FEATURE_SELECT, 1);
	high = get32(common + COMMON_DEVICE_FEATURE);
	if (!(high & FEATURE_HIGH_VERSION_1))
		return false;
	set32(common + COMMON_DRIVER_FEATURE_SELECT, 0);
	set32(common + COMMON_DRIVER_FEATURE, 0);
	set32(common + COMMON_DRIVER_FEATURE_SELECT, 1);
	set32(common + COMMON_DRIVER_FEATURE,
	      high & (FEATURE_HIGH_VERSION_1 | FEATURE_HIGH_ACCESS_PLATFORM));
	add_status(transport, STATUS_FEATURES_OK);
	return get8(common + COMMON_STATUS) & STATUS_FEATURES_OK;
}

static bool open_queue(const struct transport *transport)
{
	volatile u8 *common = transport->common;

	set16(common + COMMON_QUEUE_SELECT, 0);
	if (get16(common + COMMON_QUEUE_SIZE) < QUEUE_ENTRIES)
		return false;
	set16(common + COMMON_QUEUE_SIZE, QUEUE_ENTRIES);
	set_address(common + COMMON_QUEUE_DESC, area.desc);
	set_address(common + COMMON_QUEUE_DRIVER, &area.avail_flags);
	set_address(common + COMMON_QUEUE_DEVICE, &area.used_flags);
	set16(common + COMMON_QUEUE_ENABLE, 1);
	add_status(transport, STATUS_DRIVER_OK);
	return true;
}

static void put_desc(u16 n, const volatile void *at, u32 bytes, u16 flags)
{
	area.desc[n].address = (u64)(uintptr_t)at;
	area.desc[n].bytes = bytes;
	area.desc[n].flags = flags;
	area.desc[n].next = (u16)(n + 1);
}

static bool ask_serial(const struct transport *transport)
{
	u32 notify_off = get16(transport->common + COMMON_QUEUE_NOTIFY_OFF);

	area.request.type = REQUEST_GET_ID;
	area.status = 0xff;
	put_desc(0, &area.request, sizeof(area.request), DESC_NEXT);
	put_desc(1, area.serial, VIRTIO_BLK_SERIAL_BYTES,
		 DESC_NEXT | DESC_WRITE);
	put_desc(2, &area.status, 1, DESC_WRITE);
	area.avail_ring[0] = 0;
	fence();
	area.avail_index = 1;
	fence();
	set16(transport->notify + notify_off * transport->notify_multiplier, 0);
	for (u32 i = 0; i < ANSWER_POLLS_MAX; i++) {
		if (area.used_index == 1) {
			/* What the device wrote before is read after. */
			fence();
			return area.status == 0;
		}
		relax();
	}
	return false;
}

static void clear_area(void)
{
	volatile u8 *at = (volatile u8 *)&area;

	for (u32 i = 0; i < sizeof(area); i++)
		at[i] = 0;
}

static bool identify(const struct transport *transport,
		     struct virtio_blk_identity *identity)
{
	bool ok = reset(transport) && negotiate(transport) &&
		  open_queue(transport) && ask_serial(transport);

	if (ok) {
		identity->sectors = get32(transport->device) |
				    (u64)get32(transport->device + 4) << 32;
		for (u32 i = 0; i < VIRTIO_BLK_SERIAL_BYTES; i++)
			identity->serial[i] = area.serial[i];
	}
	/* After this the device does not access the rings any more. */
	return reset(transport) && ok;
}

bool virtio_blk_identify(const struct pci_function *function,
			 struct virtio_blk_identity *ret_identity)
{
	u16 command = pci_read16(function->bdf, PCI_COMMAND);
	struct virtio_blk_identity identity = { 0 };
	struct transport transport;
	bool ok;

	clear_area();
	pci_write16(function->bdf, PCI_COMMAND,
		    command | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	ok = find_transport(function->bdf, &transport) &&
	     identify(&transport, &identity);
	pci_write16(function->bdf, PCI_COMMAND, command);
	if (ok)
		*ret_identity = identity;
	return ok;
}
