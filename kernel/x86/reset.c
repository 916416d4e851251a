// SPDX-License-Identifier: GPL-2.0-only
/*
 * A reset by ports alone. After the commit nothing of the image may change, and in
 * Go nothing may sleep or print, so the kernel's own reboot cannot be used.
 */
#include <linux/acpi.h>
#include <linux/init.h>
#include <linux/io.h>
#include "../stop/stop.h"

/* The reset register of PC chipsets: prepare a reset of all, then begin it. */
#define REM_RESET_CHIPSET_PORT 0xcf9
#define REM_RESET_CHIPSET_PREPARE 0x02
#define REM_RESET_CHIPSET_BEGIN 0x06

/* The keyboard controller's pulse on the reset line. */
#define REM_RESET_KEYBOARD_PORT 0x64
#define REM_RESET_KEYBOARD_PULSE 0xfe

/*
 * Port reads of about a microsecond each, between two ways: a second reset could end
 * what has begun after the first.
 */
#define REM_RESET_POLLS 1000000

static u16 rem_reset_acpi_port;
static u8 rem_reset_acpi_value;

/** rem_reset_prepare - copy ACPI's reset register. Context: process, once. */
void __init rem_reset_prepare(void)
{
	const struct acpi_generic_address *reg = &acpi_gbl_FADT.reset_register;

	if (acpi_gbl_FADT.flags & ACPI_FADT_RESET_REGISTER &&
	    reg->space_id == ACPI_ADR_SPACE_SYSTEM_IO &&
	    reg->address <= U16_MAX) {
		rem_reset_acpi_port = reg->address;
		rem_reset_acpi_value = acpi_gbl_FADT.reset_value;
	}
}

static void rem_reset_out(u8 value, u16 port)
{
	unsigned int polls;

	outb(value, port);
	for (polls = 0; polls < REM_RESET_POLLS; polls++)
		inb(REM_RESET_KEYBOARD_PORT);
}

/**
 * rem_reset - reset the machine, without a store to memory other than the stack
 *
 * Context: any, one CPU, interrupts off. All others halt or do not run.
 */
void __noreturn rem_reset(void)
{
	for (;;) {
		if (rem_reset_acpi_port)
			rem_reset_out(rem_reset_acpi_value,
				      rem_reset_acpi_port);
		rem_reset_out(REM_RESET_CHIPSET_PREPARE,
			      REM_RESET_CHIPSET_PORT);
		rem_reset_out(REM_RESET_CHIPSET_BEGIN, REM_RESET_CHIPSET_PORT);
		rem_reset_out(REM_RESET_KEYBOARD_PULSE,
			      REM_RESET_KEYBOARD_PORT);
	}
}
