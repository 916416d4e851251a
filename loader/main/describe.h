/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_DESCRIBE_H
#define GO_DESCRIBE_H

#include "../core/desc.h"
#include "machine.h"

/*
 * Describe the machine as it is now into @desc. Asks every PCI function and
 * disk, so it takes most of the loader's time.
 */
void describe(const struct machine *machine, struct desc *desc);

#endif /* GO_DESCRIBE_H */
