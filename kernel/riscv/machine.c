// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the loader hands over in the device tree, and what this architecture has not.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/of_fdt.h>
#include <linux/of_reserved_mem.h>
#include <linux/sysfs.h>
#include "../resume/resume.h"
#include "../stop/stop.h"

/*
 * The node of the record block, a child of /reserved-memory, with the range of NVRAM
 * that it is in: two cells for the address, two for the size.
 */
#define REM_NODE_REGION "remanence,region"

static int __init rem_handover_read(struct reserved_mem *block)
{
	const __be32 *region;
	u64 phys, bytes;
	int length;

	region = of_get_flat_dt_prop(block->fdt_node, REM_NODE_REGION, &length);
	if (!region || length != 4 * sizeof(*region))
		return -EINVAL;
	phys = of_read_number(region, 2);
	bytes = of_read_number(region + 2, 2);
	if (block->base != phys || block->size != REM_BLOCK_BYTES ||
	    !IS_ALIGNED(phys, REM_BLOCK_ALIGN_BYTES) ||
	    bytes <= REM_BLOCK_BYTES)
		return -EINVAL;
	rem.region_phys = phys;
	rem.region_bytes = bytes;
	return 0;
}

RESERVEDMEM_OF_DECLARE(remanence, "remanence,record", rem_handover_read);

/** rem_pagetable_prepare - the kernel's own will do. Context: process. Return: 0. */
int __init rem_pagetable_prepare(void)
{
	return 0;
}

/** rem_pagetable_cr3 - Return: physical address of the kernel's page table. */
phys_addr_t rem_pagetable_cr3(void)
{
	return __pa_symbol(swapper_pg_dir);
}

/** rem_trampoline_prepare - harts start in NVRAM. Context: process. Return: 0. */
int __init rem_trampoline_prepare(void)
{
	return 0;
}

/** rem_trampoline_restore - Context: Go, one hart. */
void rem_trampoline_restore(void)
{
}

/** rem_low_pages_show - which DRAM the kernel needs. Context: process. */
ssize_t rem_low_pages_show(char *buf)
{
	return sysfs_emit(buf, "0 none\n");
}

/** rem_firmware_blocker - firmware shares nothing. Context: process. Return: NULL. */
const char * __init rem_firmware_blocker(void)
{
	return NULL;
}

/** rem_platform_save - Context: Stop, one hart, interrupts off. */
void rem_platform_save(void)
{
}

/** rem_platform_restore - Context: Go, boot CPU, interrupts off. */
void rem_platform_restore(void)
{
}

/** rem_platform_finish - Context: process, after Go. */
void rem_platform_finish(void)
{
}

/** rem_nvdimm_save - there is no NVDIMM-N. Context: Stop, one hart. */
void rem_nvdimm_save(void)
{
}

/** rem_nvdimm_go - Context: Go, one hart, interrupts off. */
void rem_nvdimm_go(void)
{
}

/** rem_nvdimm_show - Context: process. Return: bytes written to @buf. */
ssize_t rem_nvdimm_show(char *buf)
{
	return sysfs_emit(buf, "none\n");
}
