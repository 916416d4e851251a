/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The loader's end of the wire: a level, polled. A machine with no 16550 there,
 * or whose supply says nothing for SILENCE_MS, has no supply that could tell;
 * it boots as one without a monitor would, and says so.
 */
#include "power.h"

#include "../core/pwr.h"
#include "console.h"
#include "io.h"
#include "uart.h"

/* Two hundred repeats (REM_PWR_REPEAT_MS): a supply that is there may be busy. */
#define SILENCE_MS 1000u
#define TIMER_HZ 3579545u
#define TIMER_MASK 0xffffffu
#define SILENCE_TICKS (TIMER_HZ / 1000u * SILENCE_MS)

/* Without ACPI's timer: at least SILENCE_MS on any CPU below 10 GHz. */
#define SILENCE_TSC 10000000000ull

static bool wire;
static bool heard; /* status 0 is one, too */
static u8 status;

static void poll(void)
{
	u8 byte;

	while (uart_get(REM_PWR_PORT, &byte)) {
		if (!pwr_is_status(byte))
			continue;
		status = byte;
		heard = true;
		uart_put(REM_PWR_PORT, pwr_echo(byte));
	}
}

u8 power_open(void)
{
	wire = uart_open(REM_PWR_PORT);
	if (wire)
		poll();
	return status;
}

static bool silent(u16 timer_port, u32 begin, u64 begin_tsc)
{
	if (timer_port)
		return ((in32(timer_port) - begin) & TIMER_MASK) >
		       SILENCE_TICKS;
	return read_tsc() - begin_tsc > SILENCE_TSC;
}

u8 power_wait(u16 timer_port)
{
	u32 begin = timer_port ? in32(timer_port) : 0;
	u64 begin_tsc = read_tsc();
	bool said = false;

	if (!wire) {
		say("no supply: no 16550 at %x", REM_PWR_PORT);
		return 0;
	}
	for (;;) {
		poll();
		if (heard && pwr_enough(status))
			return status;
		if (heard && !said) {
			say("wait for %s (status %x)",
			    status & REM_PWR_OK ? "charge" : "power", status);
			said = true;
		}
		if (!heard && silent(timer_port, begin, begin_tsc)) {
			say("no supply: silent for %u ms", SILENCE_MS);
			return 0;
		}
		relax();
	}
}
