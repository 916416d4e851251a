// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of the platform: the events of ACPI's fixed hardware, and the alarm of the
 * real-time clock.
 */
#include <linux/acpi.h>
#include <linux/kernel.h>
#include <linux/rtc.h>
#include <linux/workqueue.h>
#include "../machine.h"
#include "resume.h"

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

/**
 * rem_alarms_finish - set the next alarm of each real-time clock again
 *
 * Its alarms are in memory. An alarm whose time has come meanwhile fires.
 *
 * Context: process, after Go.
 */
void rem_alarms_finish(void)
{
#ifdef CONFIG_RTC_CLASS
	struct rtc_device *rtc;
	char name[16];
	unsigned int i;

	for (i = 0;; i++) {
		snprintf(name, sizeof(name), "rtc%u", i);
		rtc = rtc_class_open(name);
		if (!rtc)
			return;
		schedule_work(&rtc->irqwork);
		rtc_class_close(rtc);
	}
#endif
}
