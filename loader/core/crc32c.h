/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_CRC32C_H
#define LOADER_CRC32C_H

#include "base.h"

/*
 * Call once before any other function of this file. @has_instruction: the CPU
 * has the crc32 instruction of SSE4.2, which uses general registers only.
 */
void crc32c_init(bool has_instruction);

/* CRC32C of @bytes at @data. */
u32 crc32c(const void *data, size_t bytes);

/* The same in parts: begin with CRC32C_BEGIN, end with crc32c_end(). */
#define CRC32C_BEGIN 0xffffffffu
u32 crc32c_add(u32 crc, const void *data, size_t bytes);

static inline u32 crc32c_end(u32 crc)
{
	return ~crc;
}

#endif /* LOADER_CRC32C_H */
