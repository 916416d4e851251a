/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Common to all files of the loader: types, assumptions about the platform, and
 * reads that neither overflow nor leave their buffer.
 */
#ifndef LOADER_BASE_H
#define LOADER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../format/rem_image.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

static_assert(sizeof(void *) == 8);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

/* The compiler emits calls of these four, freestanding or not. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

#define GO_PAGE_BYTES 4096u
#define GO_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline u16 get_u16(const void *from)
{
	u16 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline u32 get_u32(const void *from)
{
	u32 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline u64 get_u64(const void *from)
{
	u64 value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void put_u16(void *to, u16 value)
{
	memcpy(to, &value, sizeof(value));
}

static inline void put_u32(void *to, u32 value)
{
	memcpy(to, &value, sizeof(value));
}

static inline void put_u64(void *to, u64 value)
{
	memcpy(to, &value, sizeof(value));
}

/*
 * struct loader_memory - physical addresses that may be read
 * @base: the loader's own address of physical address @phys
 *
 * The loader has memory identity-mapped (base == phys); on the host it is a
 * buffer. Tables found by following pointers are read only through this.
 */
struct loader_memory {
	uintptr_t base;
	u64 phys;
	u64 bytes;
};

/* NULL unless [phys, phys + bytes) is within @memory. */
static inline const u8 *go_at(const struct loader_memory *memory, u64 phys,
			      u64 bytes)
{
	if (phys < memory->phys || phys - memory->phys > memory->bytes ||
	    bytes > memory->bytes - (phys - memory->phys))
		return NULL;
	return (const u8 *)(memory->base + (uintptr_t)(phys - memory->phys));
}

#endif /* LOADER_BASE_H */
