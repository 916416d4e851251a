/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Instructions of x86-64 that C cannot express: included by hw/io.h. */
#ifndef LOADER_X86_IO_H
#define LOADER_X86_IO_H

#include "../core/base.h"

/* The slowest a wait may take for granted: no CPU counts faster. */
#define TICKS_PER_MS 10000000ull

static inline u8 in8(u16 port)
{
	u8 value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline u16 in16(u16 port)
{
	u16 value;

	__asm__ volatile("inw %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline u32 in32(u16 port)
{
	u32 value;

	__asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline void out8(u16 port, u8 value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void out16(u16 port, u16 value)
{
	__asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void out32(u16 port, u32 value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline u64 read_ticks(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Tells the emulator, or a sibling thread, that this CPU is only waiting. */
static inline void relax(void)
{
	__asm__ volatile("pause" : : : "memory");
}

static inline void fence(void)
{
	__asm__ volatile("mfence" : : : "memory");
}

#define LINE_BYTES 64u

/* Write a cache line to memory. By CLFLUSH, which every 64-bit CPU has. */
static inline void flush_line(uintptr_t line)
{
	__asm__ volatile("clflush (%0)" : : "r"(line) : "memory");
}

static inline _Noreturn void halt(void)
{
	for (;;)
		__asm__ volatile("cli; hlt");
}

struct cpuid {
	u32 eax, ebx, ecx, edx;
};

static inline struct cpuid read_cpuid(u32 leaf, u32 subleaf)
{
	struct cpuid out;

	__asm__ volatile("cpuid"
			 : "=a"(out.eax), "=b"(out.ebx), "=c"(out.ecx),
			   "=d"(out.edx)
			 : "a"(leaf), "c"(subleaf));
	return out;
}

#endif /* LOADER_X86_IO_H */
