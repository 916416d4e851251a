// SPDX-License-Identifier: GPL-2.0-only
/* The 16550 of the power monitor's wire, at ports of its own. */
#include <linux/init.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/remanence/rem_pwr.h>
#include "../stop/stop.h"

static bool rem_wire_claimed;

/** rem_wire_in - read a register. Context: any. Return: its value. */
u8 rem_wire_in(unsigned int reg)
{
	return inb(REM_PWR_PORT + reg);
}

/** rem_wire_out - write a register. Context: any. */
void rem_wire_out(unsigned int reg, u8 value)
{
	outb(value, REM_PWR_PORT + reg);
}

/* Before the serial driver probes its ports. */
static int __init rem_wire_claim(void)
{
	if (rem.region_bytes)
		rem_wire_claimed = request_region(REM_PWR_PORT, 8,
						  "remanence-pwr");
	return 0;
}
subsys_initcall(rem_wire_claim);

/** rem_wire_prepare - it is claimed. Context: process, once. */
void __init rem_wire_prepare(void)
{
}

/**
 * rem_wire_irq - find out whether the wire is ours
 *
 * Context: process, once.
 * Return: its interrupt, or a negative errno if it is not ours.
 */
int __init rem_wire_irq(void)
{
	return rem_wire_claimed ? REM_PWR_IRQ : -EBUSY;
}
