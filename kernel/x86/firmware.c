// SPDX-License-Identifier: GPL-2.0-only
/*
 * What firmware shares with the kernel: ACPI's global lock. A Stop runs no method of
 * firmware, and none is needed (docs/decisions/0006-firmware-is-not-asked.md).
 */
#include <linux/acpi.h>
#include <linux/init.h>
#include <linux/remanence/rem_image.h>
#include <asm/pgtable_types.h>
#include "../stop/decide.h"
#include "../stop/stop.h"

/**
 * rem_firmware_blocker - whether firmware keeps the machine on the portable path
 *
 * Context: process, once.
 * Return: a name, or NULL.
 */
const char * __init rem_firmware_blocker(void)
{
	struct acpi_table_header *facs;
	phys_addr_t phys = 0;

	if (acpi_disabled || acpi_gbl_reduced_hardware)
		return NULL;
	if (ACPI_SUCCESS(acpi_get_table(ACPI_SIG_FACS, 1, &facs))) {
		phys = slow_virt_to_phys(facs);
		acpi_put_table(facs);
	}
	return rem_acpi_blocker(phys, rem.region_phys + REM_ACPI_OFFSET,
				rem.region_phys + REM_BLOCK_BYTES);
}
