/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Before a cold boot: registered pages are moved out of the way of the kernel. */
#ifndef LOADER_MAIN_REGISTRY_H
#define LOADER_MAIN_REGISTRY_H

#include "machine.h"

/*
 * Copy each registered page to its slot, where it is not yet. Return the bytes at the
 * end of the region that the kernel is to find reserved: those of the registry that is
 * there, or what the command line asks for, if that is more.
 */
u64 registry_save(const struct machine *machine, const u8 *cmdline);

#endif /* LOADER_MAIN_REGISTRY_H */
