// SPDX-License-Identifier: GPL-2.0-only
/*
 * Off after a planned Stop, where no supply on the wire cuts the power: ACPI's soft-off
 * (S5), by ports alone, since the image is committed. The clock's alarm starts the
 * machine again if it is enabled, as after the kernel's own power-off (rtc-cmos).
 *
 * Methods of firmware (_PTS) are not run: they may store to memory.
 */
#include <linux/acpi.h>
#include <linux/init.h>
#include <linux/io.h>
#include <linux/mc146818rtc.h>
#include <asm/x86_init.h>
#include "../stop/stop.h"

/* Of PM1, by ACPI's specification; they are the same in its status and its enable word. */
#define REM_PM1_BUTTON BIT(8)
#define REM_PM1_CLOCK BIT(10)
#define REM_PM1_WAKE_STATUS BIT(15)
#define REM_PM1_SLEEP_TYPE GENMASK(12, 10)
#define REM_PM1_SLEEP_TYPE_SHIFT 10
#define REM_PM1_SLEEP BIT(13)

/* Port reads of about a microsecond each: a machine that is still on then stays so. */
#define REM_OFF_POLLS 1000000
#define REM_OFF_WAIT_PORT 0x80

#define REM_GPE_BLOCKS 2
#define REM_PM1_BLOCKS 2

/* Ports; 0: there is none. */
static struct {
	u16 status[REM_PM1_BLOCKS];
	u16 enable[REM_PM1_BLOCKS];
	u16 control[REM_PM1_BLOCKS];
	u16 sleep[REM_PM1_BLOCKS];
	u16 gpe[REM_GPE_BLOCKS];
	u8 gpe_bytes[REM_GPE_BLOCKS];
	bool has_clock;
} rem_off_ports;

static u16 __init rem_off_port(const struct acpi_generic_address *reg)
{
	if (reg->space_id != ACPI_ADR_SPACE_SYSTEM_IO || reg->address > U16_MAX)
		return 0;
	return reg->address;
}

static void __init rem_off_gpe(unsigned int block,
			       const struct acpi_generic_address *reg, u8 bytes)
{
	u16 port = rem_off_port(reg);

	/* The second half are the enable bits. */
	if (port && bytes) {
		rem_off_ports.gpe[block] = port + bytes / 2;
		rem_off_ports.gpe_bytes[block] = bytes / 2;
	}
}

/** rem_off_prepare - copy what ACPI says of soft-off. Context: process, once. */
void __init rem_off_prepare(void)
{
	const struct acpi_table_fadt *fadt = &acpi_gbl_FADT;
	u16 events[REM_PM1_BLOCKS];
	unsigned int i;
	u8 type[REM_PM1_BLOCKS];

	if (acpi_disabled || acpi_gbl_reduced_hardware ||
	    ACPI_FAILURE(acpi_get_sleep_type_data(ACPI_STATE_S5, &type[0],
						  &type[1])))
		return;
	events[0] = rem_off_port(&fadt->xpm1a_event_block);
	events[1] = rem_off_port(&fadt->xpm1b_event_block);
	for (i = 0; i < REM_PM1_BLOCKS; i++) {
		rem_off_ports.status[i] = events[i];
		if (events[i])
			rem_off_ports.enable[i] =
				events[i] + fadt->pm1_event_length / 2;
		rem_off_ports.sleep[i] = type[i] << REM_PM1_SLEEP_TYPE_SHIFT;
	}
	rem_off_gpe(0, &fadt->xgpe0_block, fadt->gpe0_block_length);
	rem_off_gpe(1, &fadt->xgpe1_block, fadt->gpe1_block_length);
	rem_off_ports.has_clock = x86_platform.legacy.rtc;
	rem_off_ports.control[1] = rem_off_port(&fadt->xpm1b_control_block);
	rem_off_ports.control[0] = rem_off_port(&fadt->xpm1a_control_block);
}

/* What may start the machine: its button and, if its alarm is enabled, the clock. */
static void rem_off_events(void)
{
	u16 wakes = REM_PM1_BUTTON;
	unsigned int i, byte;

	for (i = 0; i < REM_GPE_BLOCKS; i++)
		for (byte = 0; byte < rem_off_ports.gpe_bytes[i]; byte++)
			outb(0, rem_off_ports.gpe[i] + byte);
	if (rem_off_ports.has_clock && CMOS_READ(RTC_CONTROL) & RTC_AIE)
		wakes |= REM_PM1_CLOCK;
	for (i = 0; i < REM_PM1_BLOCKS; i++) {
		if (!rem_off_ports.status[i])
			continue;
		/* Ones clear: what has happened before starts nothing. */
		outw(REM_PM1_BUTTON | REM_PM1_CLOCK | REM_PM1_WAKE_STATUS,
		     rem_off_ports.status[i]);
		outw(wakes, rem_off_ports.enable[i]);
	}
}

/**
 * rem_off - switch the machine off, without a store to memory other than the stack
 *
 * Context: Stop, one CPU, interrupts off, after the commit.
 * Return: only if it cannot.
 */
void rem_off(void)
{
	unsigned int i, polls;
	u16 control[REM_PM1_BLOCKS] = {};

	if (!rem_off_ports.control[0])
		return;
	rem_off_events();
	for (i = 0; i < REM_PM1_BLOCKS; i++) {
		if (!rem_off_ports.control[i])
			continue;
		control[i] = inw(rem_off_ports.control[i]);
		control[i] &= ~(REM_PM1_SLEEP_TYPE | REM_PM1_SLEEP);
		control[i] |= rem_off_ports.sleep[i];
		/* Some chip sets want the type before the bit that begins it. */
		outw(control[i], rem_off_ports.control[i]);
	}
	for (i = 0; i < REM_PM1_BLOCKS; i++)
		if (rem_off_ports.control[i])
			outw(control[i] | REM_PM1_SLEEP,
			     rem_off_ports.control[i]);
	for (polls = 0; polls < REM_OFF_POLLS; polls++)
		inb(REM_OFF_WAIT_PORT);
}
