/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_POWER_H
#define GO_POWER_H

#include "../core/base.h"

/*
 * Look at the wire once and echo what came. Returns the newest status byte,
 * 0 = none yet.
 */
u8 power_open(void);

/*
 * Come back when an image may be consumed (invariant 9): the supply says power
 * and charge, or there is no supply. Says on the console what it waits for,
 * once. @timer_port: ACPI's timer, 0 = none. Returns the last status byte, 0 =
 * no supply.
 */
u8 power_wait(u16 timer_port);

#endif /* GO_POWER_H */
