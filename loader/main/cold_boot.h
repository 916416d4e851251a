/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_COLD_BOOT_H
#define GO_COLD_BOOT_H

#include "machine.h"

/*
 * Load the kernel into NVRAM: from here on no image is left. @finish is called
 * as the last thing before the kernel is entered.
 */
_Noreturn void cold_boot(const struct machine *machine,
			 void (*finish)(void *context), void *context);

#endif /* GO_COLD_BOOT_H */
