/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The parameter memtype= of Linux' command line, as far as the loader needs it. */
#ifndef LOADER_MEMTYPE_H
#define LOADER_MEMTYPE_H

#include "base.h"

struct memtype {
	bool given;	/* the kernel chooses: report all memory by its kind */
	bool dram_only; /* the kernel must not be loaded into NVRAM */
	bool nvram;	/* the word names NVRAM; */
	bool dram;	/* it names DRAM */
};

/*
 * Parse a NUL-terminated command line. As in Linux the last memtype= counts. The
 * kernel refuses an invalid value; for the loader it is given and not dram_only.
 */
struct memtype memtype_read(const u8 *cmdline);

#endif /* LOADER_MEMTYPE_H */
