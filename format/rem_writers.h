/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Who stored to each line of NVRAM last: an array of struct rem_writer, one for
 * each line of 64 bytes, sparse where it is zero. The QEMU plugin keeps it
 * while a machine with volatile caches runs, `remanence-campaign replay` makes
 * one of a recording. It decides nothing; people read it after a cut.
 *
 * Keep to what a simple parser can read (see rem_image.h).
 */
#ifndef REM_WRITERS_H
#define REM_WRITERS_H

#include <assert.h>
#include "rem_image.h"

/* @pc where a program stored and nothing tells at which of its instructions. */
#define REM_WRITER_PROGRAM 1

/*
 * struct rem_writer - the last store to a line
 * @pc: virtual address of the instruction; 0 = no store told of the line since
 *      power-on (a device, a page walk, or what was there before)
 * @when: the vCPU in the low byte; above it that vCPU's clock in ns, taken no
 *        later than the store and no earlier than its last first-level miss
 */
struct rem_writer {
	rem_u64 pc;   /* 0 */
	rem_u64 when; /* 8 */
};

static_assert(sizeof(struct rem_writer) == 16);

#endif /* REM_WRITERS_H */
