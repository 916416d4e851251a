/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An NVDIMM-N's controller, polled. */
#ifndef LOADER_NVDIMM_H
#define LOADER_NVDIMM_H

#include "../core/base.h"

/*
 * Wait until the controller is not busy, for a bounded time: after a reset it may
 * still save. Then restore, before anything reads NVRAM. Returns
 * the last status, 0 = no controller: NVRAM needs no restore. @timer_port: ACPI's
 * timer, 0 = none.
 */
u8 nvdimm_restore(u16 timer_port);

/*
 * Erase the image from flash, before anything of it is executed. Returns the last
 * status, 0 if the controller does not confirm that it is erased.
 */
u8 nvdimm_erase(u16 timer_port);

#endif /* LOADER_NVDIMM_H */
