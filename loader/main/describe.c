/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Invariant 6: an image is entered only with the kernel and on the machine that
 * were stopped. The description leaves out what firmware may change at each boot
 * without effect on the running kernel: BAR addresses (Go restores them), the
 * addresses of ACPI tables (the kernel uses copies in NVRAM), the FACS. It
 * contains what has an effect: MCFG, and AML with the addresses in it.
 */
#include "describe.h"

#include "../core/crc32c.h"
#include "../hw/console.h"
#include "../hw/pci.h"
#include "../hw/virtio_blk.h"
#include "parts.h"
#include "stamp.h"

#define MIB 0x100000u

static void add_kernel(const struct machine *machine, struct desc *desc)
{
	const struct front *front = machine->front;
	u32 file_bytes = machine->kernel_file_bytes;
	u32 version_at = machine->kernel.version_at;
	u8 version[BZ_VERSION_BYTES];
	u32 version_bytes = 0;
	u64 value[5] = { 0 };

	if (version_at && file_bytes > version_at + BZ_VERSION_BYTES) {
		if (!front->read(FRONT_KERNEL, version_at, version,
				 sizeof(version)))
			die("reading the kernel's version failed");
		while (version_bytes < sizeof(version) &&
		       version[version_bytes])
			version_bytes++;
	}
	kernel_identify(machine, value);
	value[1] = file_bytes;
	value[2] = crc32c(version, version_bytes);
	desc_add(desc, REM_DESC_KERNEL, 0, value, GO_COUNT(value));
}

/* NVRAM exactly. DRAM only by its total in MiB: no image is in it. */
static void add_memory(const struct machine *machine, struct desc *desc)
{
	u64 dram = map_bytes(&machine->front->map, MAP_RAM);
	u32 key = 0;

	for (; key < machine->nvram.count; key++) {
		const struct range *range = &machine->nvram.range[key];
		struct range_mark mark = stamp_mark(machine, key);

		desc_add(desc, REM_DESC_MEMORY, key,
			 (u64[5]){ range->base, range->bytes, REM_MEMORY_NVRAM,
				   mark.count, mark.nonce },
			 5);
	}
	desc_add(desc, REM_DESC_MEMORY, key,
		 (u64[3]){ 0, (dram + MIB - 1) / MIB * MIB, REM_MEMORY_DRAM },
		 3);
	/* What is left out could differ. */
	desc->full |= machine->nvram_more;
}

struct functions {
	const struct machine *machine;
	struct desc *desc;
	bool report;
};

/* The supported machines have fewer disks than this list has room for. */
#define PROTECTED_BYTES_MAX 2048

/*
 * Whether the user has declared that a disk's cache keeps its content: its serial
 * is a line of the list. A list that cannot be read protects no disk.
 */
static bool is_protected(const struct machine *machine, const u8 *serial)
{
	static char list[PROTECTED_BYTES_MAX];
	const struct front *front = machine->front;
	u32 bytes, length = 0, begin = 0;

	if (!front->size(FRONT_PROTECTED, &bytes) || bytes > sizeof(list) ||
	    !front->read(FRONT_PROTECTED, 0, list, bytes))
		return false;
	while (length < VIRTIO_BLK_SERIAL_BYTES && serial[length])
		length++;
	for (u32 at = 0; length && at <= bytes; at++) {
		if (at < bytes && list[at] != '\n')
			continue;
		if (at - begin == length &&
		    !memcmp(list + begin, serial, length))
			return true;
		begin = at + 1;
	}
	return false;
}

static void add_function(const struct pci_function *function, void *context)
{
	const struct functions *all = context;
	struct desc *desc = all->desc;
	bool is_normal = !(function->header_type & 0x7f);
	u32 subsystem = is_normal ? pci_read32(function->bdf, 0x2c) : 0;
	u64 value[3] = {
		function->vendor | (u64)function->device << 16 |
			(u64)function->class_revision << 32,
		subsystem | (u64)function->header_type << 32,
		pci_bar_sizes(function),
	};
	/* A disk that does not answer is described with the largest size. */
	struct virtio_blk_identity disk = { 0 };

	desc_add(desc, REM_DESC_PCI, function->bdf, value, 3);
	if (!virtio_blk_is(function))
		return;
	if (!virtio_blk_identify(function, &disk) && all->report)
		print("disk %x does not answer", function->bdf);
	desc_add(desc, REM_DESC_DISK, function->bdf,
		 (u64[5]){ disk.sectors, get_u64(disk.serial),
			   get_u64(disk.serial + 8), get_u64(disk.serial + 16),
			   is_protected(all->machine, disk.serial) ?
				   REM_DISK_PROTECTED :
				   0 },
		 5);
}

void describe(const struct machine *machine, struct desc *desc, bool report)
{
	desc->count = 0;
	desc->full = false;
	add_kernel(machine, desc);
	describe_cpus(machine, desc);
	add_memory(machine, desc);
	pci_scan(add_function, &(struct functions){ machine, desc, report });
	describe_firmware(machine, desc);
	desc_finish(desc);
	if (desc->full && report)
		print("the machine has more than %u parts or %u ranges of NVRAM: no image can be entered",
		      REM_DESC_ENTRIES_MAX, REM_RANGES_MAX);
}
