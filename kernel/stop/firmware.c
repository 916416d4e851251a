// SPDX-License-Identifier: GPL-2.0-only
/*
 * What firmware shares with the kernel: ACPI's global lock. A Stop runs no method of
 * firmware, and none is needed (docs/decisions/0006-firmware-is-not-asked.md).
 */
#include <linux/acpi.h>
#include <linux/init.h>
#include "decide.h"
#include "stop.h"

/**
 * rem_firmware_blocker - whether firmware keeps the machine on the portable path
 *
 * Tables do not say whether firmware uses the global lock. If it does, methods that the
 * kernel has run to find devices, or its driver of the embedded controller, have
 * acquired it by now: the handle of the lock counts that.
 *
 * Context: process, once, when all devices were probed.
 * Return: its name, or NULL.
 */
const char * __init rem_firmware_blocker(void)
{
	struct acpi_table_header *facs;
	u32 uses = 0;
	bool present;

	if (acpi_disabled || acpi_gbl_reduced_hardware)
		return NULL;
	present = ACPI_SUCCESS(acpi_get_table(ACPI_SIG_FACS, 1, &facs));
	if (present)
		acpi_put_table(facs);
	if (ACPI_SUCCESS(acpi_acquire_global_lock(0, &uses)))
		acpi_release_global_lock(uses);
	return rem_acpi_blocker(present, uses);
}
