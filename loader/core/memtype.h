/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The word memtype= of Linux' command line, as far as it concerns a loader. */
#ifndef GO_MEMTYPE_H
#define GO_MEMTYPE_H

#include "base.h"

struct memtype {
	bool given;	/* the kernel chooses: tell it all memory by its kind */
	bool dram_only; /* it must not be put into NVRAM */
};

/*
 * Read a NUL-terminated command line. As in Linux words end at any byte up to
 * the space and the last memtype= counts. A wrong value is the kernel's to
 * refuse: it is given, and not dram_only.
 */
struct memtype memtype_read(const u8 *cmdline);

#endif /* GO_MEMTYPE_H */
