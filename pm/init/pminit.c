// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: pminit
 *
 * ``pm=SIZE[@ADDRESS]`` on the command line puts a region of main memory aside
 * for pmcore, before anything could be allocated from it, and maps it at the
 * same kernel virtual address at each boot. The boot stub keeps the kernel's own
 * image out of it (arch/x86/boot/compressed/kaslr.c). Nothing is written to it
 * here, so that it keeps its content over whatever main memory keeps its own:
 * a reboot, a kexec, a panic and, in NVRAM, a power cut.
 *
 * How large it is, is the region's own affair once there is one: its superblock
 * says so, and may have a wish for another size, which pmcore applies when the
 * memory for it is there. So enough is put aside for both.
 */
#include <linux/crc32.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <asm/e820/api.h>
#include <asm/early_ioremap.h>
#include <asm/pm_region.h>
#include <asm/sections.h>
#include <asm/setup.h>
#include <asm/shared/pm_place.h>

#include "pminit.h"
#include "slot.h"

static char *asked __initdata;
static struct pminit_region region __ro_after_init;

static int __init pm_setup(char *value)
{
	asked = value;
	return value ? 0 : -EINVAL;
}
early_param("pm", pm_setup);

/* For judge.c, and before anything could be recovered from a machine check. */
bool pm_fetch(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return true;
}

rem_u32 pm_crc32c_add(rem_u32 crc, const void *data, size_t bytes)
{
	return __crc32c_le(crc, data, bytes);
}

/* Bytes that the region at @phys has or wishes for; 0 if there is none. */
static u64 __init region_bytes(phys_addr_t phys)
{
	static u8 copies[REM_PM_COPIES][REM_PM_SLOT_BYTES] __initdata;
	struct pm_slot slot = { .index = REM_PM_SUPER_INDEX };
	struct rem_pm_super super;
	struct pm_verdict verdict;
	int copy;

	for (copy = 0; copy < REM_PM_COPIES; copy++) {
		phys_addr_t at = phys + copy * REM_PM_SUPER_STRIDE_BYTES;
		void *seen = early_memremap(at, REM_PM_SLOT_BYTES);

		if (!seen)
			return 0;
		memcpy(copies[copy], seen, REM_PM_SLOT_BYTES);
		early_memunmap(seen, REM_PM_SLOT_BYTES);
		slot.copy[copy] = copies[copy];
	}
	if (pm_slot_judge(&slot, &verdict))
		return 0;
	memcpy(&super, verdict.half, sizeof(super));
	if (super.magic != REM_PM_MAGIC || super.version != REM_PM_VERSION)
		return 0;
	return max(super.region_bytes, super.wish_bytes);
}

/* Why a place cannot be the region's, or NULL. */
static const char *__init objection(u64 start, u64 end)
{
	u64 initrd = boot_params.hdr.ramdisk_image |
		     (u64)boot_params.ext_ramdisk_image << 32;
	u64 initrd_bytes = boot_params.hdr.ramdisk_size |
			   (u64)boot_params.ext_ramdisk_size << 32;

	if (!e820__mapped_all(start, end, E820_TYPE_RAM))
		return "is not all main memory";
	if (start < __pa_symbol(_end) && __pa_symbol(_text) < end)
		return "has the kernel in it";
	if (initrd_bytes && start < initrd + initrd_bytes && initrd < end)
		return "has the initrd in it";
	if (end - start > PMINIT_BYTES_MAX)
		return "is too large";
	return NULL;
}

static u64 __init choose_bytes(const struct pm_place *place)
{
	u64 bytes = round_up(region_bytes(place->start), PM_PLACE_ALIGN);
	const char *why;

	if (bytes <= place->bytes)
		return place->bytes;
	why = "has no memory behind it";
	if (bytes <= place->limit - place->start)
		why = objection(place->start, place->start + bytes);
	if (!why)
		return bytes;
	pr_err("pm=: a region of %llu bytes at %#llx %s\n", bytes, place->start,
	       why);
	return place->bytes;
}

/**
 * pm_region_reserve() - take the region out of the memory map
 *
 * Context: boot, one CPU, before memblock knows of any memory.
 */
void __init pm_region_reserve(void)
{
	struct pm_place place = {};
	const char *why;
	u64 bytes;

	if (!asked)
		return;
	if (!pm_place_find(asked, boot_params.e820_table,
			   boot_params.e820_entries, &place)) {
		pr_err("pm=: invalid: give SIZE[@ADDRESS], multiples of 2M, within main memory\n");
		return;
	}
	why = objection(place.start, place.start + place.bytes);
	if (why) {
		pr_err("pm=: %llu bytes at %#llx: this %s\n", place.bytes,
		       place.start, why);
		return;
	}
	bytes = choose_bytes(&place);
	e820__range_update(place.start, bytes, E820_TYPE_RAM,
			   E820_TYPE_RESERVED);
	e820__update_table(e820_table);
	region.phys = place.start;
	region.bytes = bytes;
	region.asked_bytes = place.bytes;
	region.limit_bytes =
		min_t(u64, place.limit - place.start, PMINIT_BYTES_MAX);
	pr_info("pm: %llu bytes at %#llx are persistent memory\n", bytes,
		place.start);
}

/*
 * Before there is any process, whose page table would be a copy without it.
 * Reading only: pmcore writes through windows of its own.
 */
static int __init map_region(void)
{
	int err;

	if (!region.bytes)
		return 0;
	err = vmap_page_range(PMINIT_ADDRESS, PMINIT_ADDRESS + region.bytes,
			      region.phys, PAGE_KERNEL_RO);
	if (err) {
		pr_err("pm=: the region cannot be mapped: %pe\n", ERR_PTR(err));
		return err;
	}
	region.address = (void *)PMINIT_ADDRESS;
	return 0;
}
early_initcall(map_region);

/**
 * pminit_region() - what pm= put aside
 *
 * Return: NULL if it put nothing aside.
 */
const struct pminit_region *pminit_region(void)
{
	return region.address ? &region : NULL;
}
EXPORT_SYMBOL_GPL(pminit_region);
