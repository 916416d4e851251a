/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_COLD_BOOT_H
#define LOADER_COLD_BOOT_H

#include "../core/desc.h"
#include "machine.h"

/*
 * Load the kernel into NVRAM, which overwrites any image, and enter it. @desc gets
 * new stamps of ranges of NVRAM and is written again. @finish is called last,
 * before the kernel is entered.
 */
_Noreturn void cold_boot(const struct machine *machine, struct desc *desc,
			 void (*finish)(void *context), void *context);

#endif /* LOADER_COLD_BOOT_H */
