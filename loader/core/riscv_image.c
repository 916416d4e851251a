/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "riscv_image.h"

#define IMAGE_SIZE 16
#define IMAGE_FLAGS 24
#define IMAGE_MAGIC 56
#define MAGIC 0x05435352u /* "RSC\x05" */
#define FLAG_BIG_ENDIAN 1u
#define CMDLINE_BYTES_MAX 1023u
#define SIZE_MAX_BYTES (1ull << 30)
#define FNV_PRIME 0x100000001b3ull

const char *riscv_image_parse(const u8 *head, u64 file_bytes,
			      struct bz_image *ret_image)
{
	u64 bytes = get_u64(head + IMAGE_SIZE);

	if (get_u32(head + IMAGE_MAGIC) != MAGIC)
		return "the kernel is no Image of Linux for RISC-V";
	if (get_u64(head + IMAGE_FLAGS) & FLAG_BIG_ENDIAN)
		return "the kernel is big endian";
	if (file_bytes > SIZE_MAX_BYTES || bytes > SIZE_MAX_BYTES ||
	    bytes < file_bytes)
		return "the kernel's size is impossible";
	*ret_image = (struct bz_image){
		.kernel_bytes = (u32)file_bytes,
		.init_bytes = (u32)bytes,
		.align_bytes = RISCV_IMAGE_ALIGN_BYTES,
		.cmdline_bytes_max = CMDLINE_BYTES_MAX,
	};
	return NULL;
}

u64 riscv_image_sum(u64 sum, const u8 *from, u32 bytes)
{
	u8 last[8] = { 0 };

	for (; bytes >= 8; bytes -= 8, from += 8)
		sum = (sum ^ get_u64(from)) * FNV_PRIME;
	if (!bytes)
		return sum;
	memcpy(last, from, bytes);
	return (sum ^ get_u64(last)) * FNV_PRIME;
}
