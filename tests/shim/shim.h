/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SHIM_H
#define SHIM_H

#include <stddef.h>
#include <stdint.h>

static inline void out8(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t in8(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline void out32(uint16_t port, uint32_t value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

/* console.c */
void put_text(const char *text);
void put_hex(uint64_t value);
void put_range(const char *what, uint64_t start, uint64_t end,
	       const char *name);
_Noreturn void stop(const char *reason);

/* fwcfg.c: ret_bytes is the file's size; no such file: returns 0, or stops if it is required */
uint16_t fwcfg_find(const char *name, uint32_t *ret_bytes);
uint16_t fwcfg_require(const char *name, uint32_t *ret_bytes);
void fwcfg_read(uint16_t key, uint32_t offset_bytes, void *to, uint32_t bytes);

void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

#endif /* SHIM_H */
