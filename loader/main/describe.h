/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_DESCRIBE_H
#define LOADER_DESCRIBE_H

#include "../core/desc.h"
#include "machine.h"

/*
 * Write a description of the machine to @desc. This reads every PCI function and
 * disk, and takes most of the loader's time. With @report it prints what of the
 * machine cannot be described.
 */
void describe(const struct machine *machine, struct desc *desc, bool report);

#endif /* LOADER_DESCRIBE_H */
