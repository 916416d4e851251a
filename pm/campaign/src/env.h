/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The surroundings of the core while it looks at an image. */
#ifndef PM_IMAGE_ENV_H
#define PM_IMAGE_ENV_H

#include "../../core/env.h"

/* The core is about to write to these bytes. */
typedef void pm_touch(void *context, size_t offset, size_t bytes);

struct pm_env {
	rem_u8 *memory;
	size_t bytes;
	pm_touch *touch;
	void *context;
};

#endif /* PM_IMAGE_ENV_H */
