/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The header of Linux for RISC-V (Documentation/arch/riscv/boot-image-header.rst). */
#ifndef LOADER_RISCV_IMAGE_H
#define LOADER_RISCV_IMAGE_H

#include "linux.h"

#define RISCV_IMAGE_ALIGN_BYTES 0x200000u

/* As bz_parse(). */
const char *riscv_image_parse(const u8 *head, u64 file_bytes,
			      struct bz_image *ret_image);

/*
 * A sum of a file's bytes in parts, which tells builds apart: FNV-1a by words of 64
 * bits, since a CRC without an instruction for it takes longer than all the rest of Go.
 * Begin with RISCV_SUM_BEGIN; only the last part may be no whole number of words.
 */
#define RISCV_SUM_BEGIN 0xcbf29ce484222325ull
u64 riscv_image_sum(u64 sum, const u8 *from, u32 bytes);

#endif /* LOADER_RISCV_IMAGE_H */
