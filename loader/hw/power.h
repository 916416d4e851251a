/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_POWER_H
#define LOADER_POWER_H

#include "../core/base.h"

/* Open the wire, and poll it once. */
u8 power_open(void);

/*
 * Echo the bytes that were received. Returns the newest status byte, 0 = none yet.
 * The supply repeats what is not echoed; what is, only the loader knows.
 */
u8 power_poll(void);

/*
 * Wait until an image may be consumed (invariant 9): the supply reports power and
 * charge, or there is no supply. Logs once what it waits for. @timer_port: ACPI's
 * timer, 0 = none. Returns the last status byte, 0 = no supply.
 */
u8 power_wait(u16 timer_port);

#endif /* LOADER_POWER_H */
