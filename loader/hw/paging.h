/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_PAGING_H
#define LOADER_PAGING_H

#include "../core/base.h"

/*
 * Identity-map [phys, phys + bytes), rounded out to 2 MiB; the first 4 GiB are
 * always mapped. False if the range does not fit 48 bits or no table is left
 * (after about 60 GiB on a CPU without 1 GiB pages).
 */
bool paging_map(u64 phys, u64 bytes);

#endif /* LOADER_PAGING_H */
