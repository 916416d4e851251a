/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "uart.h"

#include "io.h"

#define DATA 0
#define INTERRUPT_ENABLE 1
#define FIFO_CONTROL 2
#define LINE_CONTROL 3
#define MODEM_CONTROL 4
#define LINE_STATUS 5
#define SCRATCH 7

#define LINE_8N1 0x03
#define LINE_DIVISOR 0x80
#define FIFO_ENABLE 0x01
#define FIFO_BYTES 16
#define MODEM_DTR_RTS 0x03
#define STATUS_RECEIVED 0x01
#define STATUS_ERRORS 0x1c /* parity, framing, break */
#define STATUS_CAN_SEND 0x20

/*
 * A byte takes 87 us at 115200 baud; a status read takes 1 us on real ports and
 * less under emulation. A transmitter that is still full then is not connected.
 */
#define SEND_POLLS_MAX 1000000u

bool uart_open(u16 port)
{
	out8((u16)(port + SCRATCH), 0x5a);
	if (in8((u16)(port + SCRATCH)) != 0x5a)
		return false;
	out8((u16)(port + SCRATCH), 0xa5);
	if (in8((u16)(port + SCRATCH)) != 0xa5)
		return false;
	out8((u16)(port + INTERRUPT_ENABLE), 0);
	out8((u16)(port + LINE_CONTROL), LINE_DIVISOR);
	out8((u16)(port + DATA), 1);
	out8((u16)(port + INTERRUPT_ENABLE), 0);
	out8((u16)(port + LINE_CONTROL), LINE_8N1);
	/* No FIFO reset: a status byte may already be there. */
	out8((u16)(port + FIFO_CONTROL), FIFO_ENABLE);
	out8((u16)(port + MODEM_CONTROL), MODEM_DTR_RTS);
	return true;
}

/*
 * Ports whose next byte has an error: a read of the status clears it there. The four
 * ports of a PC, 3f8, 2f8, 3e8 and 2e8, differ in these two bits of their numbers.
 */
static u32 error_ports;

static u32 port_bit(u16 port)
{
	return 1u << ((port >> 7 & 2) | (port >> 4 & 1));
}

static u8 line_status(u16 port)
{
	u8 line = in8((u16)(port + LINE_STATUS));

	if (line & STATUS_ERRORS)
		error_ports |= port_bit(port);
	return line;
}

bool uart_put(u16 port, u8 byte)
{
	for (u32 i = 0; i < SEND_POLLS_MAX; i++) {
		if (line_status(port) & STATUS_CAN_SEND) {
			out8(port, byte);
			return true;
		}
		relax();
	}
	return false;
}

bool uart_get(u16 port, u8 *ret_byte)
{
	for (u32 i = 0; i < FIFO_BYTES; i++) {
		if (!(line_status(port) & STATUS_RECEIVED))
			break;
		*ret_byte = in8(port);
		if (!(error_ports & port_bit(port)))
			return true;
		error_ports &= ~port_bit(port);
	}
	return false;
}
