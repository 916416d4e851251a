/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The loader's end of the wire: a level, polled. If there is no 16550, or if the
 * supply sends nothing for SILENCE_MS, the machine has no power monitor: the
 * loader logs that and does not wait.
 */
#include "power.h"

#include "../core/pwr.h"
#include "console.h"
#include "io.h"
#include "uart.h"
#include "wait.h"

/* Two hundred repeats (REM_PWR_REPEAT_MS): a supply may be busy. */
#define SILENCE_MS 1000u

static bool wire;
static bool answered; /* a status of 0 is valid, too */
static u8 status;

u8 power_poll(void)
{
	u8 byte;

	while (wire && uart_get(REM_PWR_PORT, &byte)) {
		if (!pwr_is_status(byte))
			continue;
		status = byte;
		answered = true;
		uart_put(REM_PWR_PORT, pwr_echo(byte));
	}
	return status;
}

u8 power_open(void)
{
	wire = uart_open(REM_PWR_PORT);
	return power_poll();
}

u8 power_wait(u16 timer_port)
{
	struct wait wait = wait_begin(timer_port);
	bool printed = false;

	if (!wire) {
		print("no supply: no 16550 at %x", REM_PWR_PORT);
		return 0;
	}
	for (;;) {
		power_poll();
		if (answered && pwr_enough(status))
			return status;
		if (answered && !printed) {
			print("wait for %s (status %x)",
			      status & REM_PWR_OK ? "charge" : "power", status);
			printed = true;
		}
		if (!answered && wait_over(&wait, SILENCE_MS)) {
			print("no supply: no status for %u ms", SILENCE_MS);
			return 0;
		}
		relax();
	}
}
