/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The bytes on the wire of PWR_OK (format/rem_pwr.h). */
#ifndef LOADER_PWR_H
#define LOADER_PWR_H

#include "../../format/rem_pwr.h"
#include "base.h"

/* True if @byte is a status from the supply; all others are ignored. */
static inline bool pwr_is_status(u8 byte)
{
	return !__builtin_parity(byte) && !(byte & REM_PWR_FROM_MACHINE);
}

static inline u8 pwr_echo(u8 status)
{
	u8 echo = (u8)((status & ~REM_PWR_PARITY) | REM_PWR_FROM_MACHINE);

	return __builtin_parity(echo) ? echo | REM_PWR_PARITY : echo;
}

/* True if an image may be consumed: power, and charge for another Stop. */
static inline bool pwr_enough(u8 status)
{
	return (status & REM_PWR_OK) && (status & REM_PWR_CHARGE_MASK) >>
						REM_PWR_CHARGE_SHIFT >=
						REM_CHARGE_FLAP;
}

#endif /* LOADER_PWR_H */
