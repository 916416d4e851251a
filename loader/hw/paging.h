/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_PAGING_H
#define GO_PAGING_H

#include "../core/base.h"

/*
 * Map [phys, phys + bytes) to itself, rounded out to 2 MiB; the first 4 GiB
 * always are. False if the range does not fit 48 bits or the tables are used
 * up (about 60 GiB on a CPU without 1 GiB pages).
 */
bool paging_map(u64 phys, u64 bytes);

#endif /* GO_PAGING_H */
