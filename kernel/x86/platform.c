// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of the platform: the events of ACPI's hardware.
 */
#include <linux/acpi.h>
#include <linux/kernel.h>
#include "../machine.h"
#include "../resume/resume.h"

/* Bits of PM1: firmware hands them over as zero. */
static const u32 rem_pm1_bits[] = {
	ACPI_BITREG_TIMER_ENABLE,	  ACPI_BITREG_GLOBAL_LOCK_ENABLE,
	ACPI_BITREG_POWER_BUTTON_ENABLE,  ACPI_BITREG_SLEEP_BUTTON_ENABLE,
	ACPI_BITREG_RT_CLOCK_ENABLE,
};

static u32 rem_pm1[ARRAY_SIZE(rem_pm1_bits)];

/** rem_platform_save - save PM1. Context: Stop, one CPU, interrupts off. */
void rem_platform_save(void)
{
	unsigned int i;

	if (acpi_disabled || acpi_gbl_reduced_hardware)
		return;
	for (i = 0; i < ARRAY_SIZE(rem_pm1_bits); i++)
		acpi_read_bit_register(rem_pm1_bits[i], &rem_pm1[i]);
}

/**
 * rem_platform_restore - ACPI mode, and the events that were enabled
 *
 * Until then firmware owns the SCI and the power management timer.
 *
 * Context: Go, boot CPU, interrupts off.
 */
void rem_platform_restore(void)
{
	unsigned int i;

	acpi_enable();
	if (acpi_disabled || acpi_gbl_reduced_hardware)
		return;
	for (i = 0; i < ARRAY_SIZE(rem_pm1_bits); i++)
		acpi_write_bit_register(rem_pm1_bits[i], rem_pm1[i]);
}

/** rem_platform_finish - events of devices may wake again. Context: process, after Go. */
void rem_platform_finish(void)
{
	acpi_enable_all_runtime_gpes();
}
