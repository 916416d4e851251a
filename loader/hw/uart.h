/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A 16550, polled. */
#ifndef LOADER_UART_H
#define LOADER_UART_H

#include "../core/base.h"

/* Set up 115200 8N1 with FIFOs; false if no 16550 answers at @port. */
bool uart_open(u16 port);

/* Send one byte; false if the transmitter never drains. */
bool uart_put(u16 port, u8 byte);

/* Take a received byte without an error of the line; false if there is none. */
bool uart_get(u16 port, u8 *ret_byte);

#endif /* LOADER_UART_H */
