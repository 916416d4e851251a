/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The header of Linux for RISC-V (Documentation/arch/riscv/boot-image-header.rst). */
#ifndef LOADER_RISCV_IMAGE_H
#define LOADER_RISCV_IMAGE_H

#include "linux.h"

#define RISCV_IMAGE_ALIGN_BYTES 0x200000u

/* As bz_parse(). */
const char *riscv_image_parse(const u8 *head, u64 file_bytes,
			      struct bz_image *ret_image);

#endif /* LOADER_RISCV_IMAGE_H */
