/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The last store to each line of NVRAM: an array of struct rem_writer, one for
 * each line of 64 bytes, sparse where it is zero. The QEMU plugin maintains it
 * while a machine with volatile caches runs, `remanence-campaign replay` derives
 * one from a recording. No decision depends on it; it is for reports after a cut.
 *
 * Use only what a simple parser can read (see rem_image.h).
 */
#ifndef REM_WRITERS_H
#define REM_WRITERS_H

#include <assert.h>
#include "rem_image.h"

/* @pc of a store by a program at an unknown instruction. */
#define REM_WRITER_PROGRAM 1

/*
 * struct rem_writer - the last store to a line
 * @pc: virtual address of the instruction; 0 = no store was seen since power-on
 *      (a device, a page walk, or old content)
 * @when: the vCPU in the low byte; above it that vCPU's clock in ns, not later
 *        than the store and not earlier than its last first-level miss
 */
struct rem_writer {
	rem_u64 pc;   /* 0 */
	rem_u64 when; /* 8 */
};

static_assert(sizeof(struct rem_writer) == 16);

#endif /* REM_WRITERS_H */
