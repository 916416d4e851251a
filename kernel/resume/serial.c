// SPDX-License-Identifier: GPL-2.0-only
/*
 * UARTs after Go: their registers are as after reset. The driver's own pair of
 * suspend and resume sets up everything that a port had been given; output by
 * the console in between is polled and does not need it.
 */
#include <linux/serial_8250.h>
#include "8250.h"
#include "resume.h"

/**
 * rem_serial_finish - set up every port again
 *
 * Context: process, after Go. Return: nothing.
 */
void rem_serial_finish(void)
{
#ifdef CONFIG_SERIAL_8250
	unsigned int line;

	for (line = 0; line < CONFIG_SERIAL_8250_RUNTIME_UARTS; line++) {
		if (serial8250_get_port(line)->port.type == PORT_UNKNOWN)
			continue;
		serial8250_suspend_port(line);
		serial8250_resume_port(line);
	}
#endif
}
