/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_POWER_H
#define LOADER_POWER_H

#include "../core/base.h"

/*
 * Poll the wire once and echo the bytes received. Returns the newest status byte,
 * 0 = none yet.
 */
u8 power_open(void);

/*
 * Wait until an image may be consumed (invariant 9): the supply reports power and
 * charge, or there is no supply. Logs once what it waits for. @timer_port: ACPI's
 * timer, 0 = none. Returns the last status byte, 0 = no supply.
 */
u8 power_wait(u16 timer_port);

#endif /* LOADER_POWER_H */
