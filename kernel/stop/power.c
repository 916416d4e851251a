// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wire of the power monitor (include/linux/remanence/rem_pwr.h): a 16550 on
 * which the supply sends PWR_OK, so that a drop arrives as an interrupt.
 */
#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/remanence/rem_pwr.h>
#include <linux/serial_reg.h>
#include "stop.h"

/* The last status of the supply. The loader enters only with power present. */
static u8 rem_pwr_status = REM_PWR_OK;
static bool rem_pwr_claimed;
/* A supply is there: it cuts the power when a Stop is reported. */
static bool rem_pwr_heard;
static bool rem_pwr_watched;

/* A transmitter that is not ready after this many reads is absent. */
#define REM_PWR_POLLS_MAX 1000

/*
 * A break, or a wire that comes loose, is received as zeros, and a zero is a valid
 * status: no power. So a byte that came with an error of the line is ignored, like
 * one with a wrong parity; the supply repeats what is not echoed.
 */
#define REM_PWR_LINE_ERRORS (UART_LSR_BI | UART_LSR_FE | UART_LSR_PE)
#define REM_PWR_LINE_ABSENT 0xff /* what is read where no device answers */

/*
 * Returns errors of the line, which belong to the next byte received: a read of the
 * register clears them.
 */
static u8 rem_pwr_send(u8 byte)
{
	unsigned int polls;
	u8 errors = 0;
	u8 line;

	for (polls = 0; polls < REM_PWR_POLLS_MAX; polls++) {
		line = rem_wire_in(UART_LSR);
		errors |= line & REM_PWR_LINE_ERRORS;
		if (line & UART_LSR_THRE)
			break;
	}
	rem_wire_out(UART_TX, byte);
	return errors;
}

/* Returns the state of the line; with UART_LSR_DR set *@ret_byte is received. */
static u8 rem_pwr_receive(u8 *ret_byte)
{
	u8 line = rem_wire_in(UART_LSR);

	/* Behind a bus that Go has not restored yet. */
	if (line == REM_PWR_LINE_ABSENT)
		return 0;
	if (line & UART_LSR_DR)
		*ret_byte = rem_wire_in(UART_RX);
	return line;
}

static bool rem_pwr_is_status(u8 line, u8 byte)
{
	return line & UART_LSR_DR && !(line & REM_PWR_LINE_ERRORS) &&
	       !(hweight8(byte) & 1) && !(byte & REM_PWR_FROM_MACHINE);
}

static u8 rem_pwr_even(u8 byte)
{
	return hweight8(byte) & 1 ? byte ^ REM_PWR_PARITY : byte;
}

/* Returns whether PWR_OK drops with this status; sets *@ret_errors. */
static bool rem_pwr_byte(u8 byte, u8 *ret_errors)
{
	bool was_ok = READ_ONCE(rem_pwr_status) & REM_PWR_OK;

	WRITE_ONCE(rem_pwr_status, byte);
	*ret_errors = rem_pwr_send(rem_pwr_even((byte & ~REM_PWR_PARITY) |
						REM_PWR_FROM_MACHINE));
	return was_ok && !(byte & REM_PWR_OK);
}

static irqreturn_t rem_pwr_interrupt(int irq, void *data)
{
	irqreturn_t ret = IRQ_NONE;
	bool was_ok = rem_power_ok();
	bool dropped = false;
	u8 errors = 0;
	u8 line, byte;

	while ((line = rem_pwr_receive(&byte)) & UART_LSR_DR) {
		line |= errors;
		errors = 0;
		if (rem_pwr_is_status(line, byte)) {
			rem_pwr_heard = true;
			dropped |= rem_pwr_byte(byte, &errors);
		}
		ret = IRQ_HANDLED;
	}
	if (!was_ok && rem_power_ok())
		rem_stop_power_returned();
	/* A Stop that begins leaves the promise as it is. */
	if (!dropped || !rem_stop_begin(REM_STOP_POWER))
		rem_promise_update();
	return ret;
}

static void rem_pwr_setup(void)
{
	rem_wire_out(UART_IER, 0);
	rem_wire_out(UART_LCR, UART_LCR_DLAB | UART_LCR_WLEN8);
	rem_wire_out(UART_DLL, 1);
	rem_wire_out(UART_DLM, 0);
	rem_wire_out(UART_LCR, UART_LCR_WLEN8);
	rem_wire_out(UART_FCR, UART_FCR_ENABLE_FIFO);
	rem_wire_out(UART_MCR, UART_MCR_DTR | UART_MCR_RTS | UART_MCR_OUT2);
	rem_wire_out(UART_IER, UART_IER_RDI);
}

/** rem_power_ok - Return: whether the last status of the supply was PWR_OK. */
bool rem_power_ok(void)
{
	return READ_ONCE(rem_pwr_status) & REM_PWR_OK;
}

/** rem_power_watched - Return: whether a drop of PWR_OK is noticed. Context: any. */
bool rem_power_watched(void)
{
	return READ_ONCE(rem_pwr_watched);
}

/** rem_power_charged - Return: whether the supply reports charge for a Stop. */
bool rem_power_charged(void)
{
	return READ_ONCE(rem_pwr_status) & REM_PWR_CHARGE_MASK;
}

/** rem_power_report_stopped - send REM_PWR_STOPPED, after the commit. */
void rem_power_report_stopped(void)
{
	if (rem_pwr_claimed)
		rem_pwr_send(REM_PWR_STOPPED);
}

/**
 * rem_power_wait - after the commit: wait for the supply to come back
 *
 * Power that returns before it was gone, in a brown-out or because the drop was
 * noise, finds the machine stopped: a reset brings it to the loader, which enters
 * the image as after any other time without power. The loader echoes the status. That
 * is so, too, if it was back before the interrupt was off, and echoed. A planned Stop
 * begins with power present, and ends likewise after a drop. Without a supply on the
 * wire nobody would cut the power after it: the machine switches itself off.
 *
 * Stores to nothing but the dead part of the stack, since the image is committed.
 *
 * Context: Stop, one CPU, interrupts off, after the commit.
 */
void __noreturn rem_power_wait(void)
{
	bool was_ok = rem_power_ok();
	u8 line, byte;

	if (rem.stop_reason == REM_STOP_PLANNED && !rem_pwr_heard)
		rem_off();
	if (!rem_pwr_claimed)
		rem_halt();
	if (was_ok && rem.stop_reason == REM_STOP_POWER)
		rem_reset();
	for (;;) {
		line = rem_pwr_receive(&byte);
		if (!rem_pwr_is_status(line, byte)) {
			cpu_relax();
			continue;
		}
		if (!was_ok && byte & REM_PWR_OK)
			rem_reset();
		was_ok = byte & REM_PWR_OK;
	}
}

/**
 * rem_power_go - set the wire up again
 * @resumed: power was off; otherwise a Stop was refused
 *
 * The loader enters an image only with PWR_OK present, and has noted the status that
 * it echoed. The supply repeats a change that has not been echoed since then.
 *
 * Context: Go, one CPU, interrupts off.
 */
void rem_power_go(bool resumed)
{
	if (resumed) {
		rem_pwr_heard = rem_record_note()->charge;
		rem_pwr_status = rem_record_note()->charge ?: REM_PWR_OK;
	}
	/* Without a handler its interrupt would never be answered. */
	if (rem_pwr_watched)
		rem_pwr_setup();
}

/**
 * rem_power_init - enable the interrupt of the wire
 *
 * Context: process, once, when everything else is ready.
 * Return: 0 or a negative errno.
 */
int __init rem_power_init(void)
{
	int irq = rem_wire_irq();
	int err;

	if (irq < 0)
		return irq;
	rem_pwr_claimed = true;
	rem_wire_out(UART_SCR, 0x5a);
	if (rem_wire_in(UART_SCR) != 0x5a)
		return -ENODEV;
	/* The loader has echoed the last status: the supply does not repeat it. */
	if (rem_record_note()->charge) {
		rem_pwr_status = rem_record_note()->charge;
		rem_pwr_heard = true;
	}
	err = request_irq(irq, rem_pwr_interrupt,
			  IRQF_NO_SUSPEND | IRQF_NO_THREAD, "remanence-pwr",
			  &rem);
	if (err)
		return err;
	rem_pwr_setup();
	WRITE_ONCE(rem_pwr_watched, true);
	rem_promise_update();
	if (!rem_power_ok())
		rem_stop_begin(REM_STOP_POWER);
	return 0;
}
