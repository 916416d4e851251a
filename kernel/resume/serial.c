// SPDX-License-Identifier: GPL-2.0-only
/*
 * UARTs after Go, whose registers are as after reset. The driver's own suspend
 * and resume restore the settings of a port; console output before that is polled
 * and does not depend on them.
 */
#include <linux/serial_8250.h>
#include "8250.h"
#include "resume.h"

/**
 * rem_serial_finish - set up every port again
 *
 * Context: process, after Go.
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
