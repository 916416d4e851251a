/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An NVDIMM-N's controller, polled. */
#ifndef GO_NVDIMM_H
#define GO_NVDIMM_H

#include "../core/base.h"

/*
 * Order the restore and wait for its end, before anything reads NVRAM. Returns
 * the last status, 0 = there is no controller and NVRAM is what it is.
 * @timer_port: ACPI's timer, 0 = none.
 */
u8 nvdimm_restore(u16 timer_port);

/*
 * Let flash forget the image, before anything of it is executed. Returns the
 * last status, 0 where the controller does not say that it is erased.
 */
u8 nvdimm_erase(u16 timer_port);

#endif /* GO_NVDIMM_H */
