/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Instructions of RISC-V that C cannot express, and devices: included by hw/io.h. There
 * are no ports: those that the loader names are registers in memory.
 */
#ifndef LOADER_RISCV_IO_H
#define LOADER_RISCV_IO_H

#include "../core/base.h"

/* struct windows - where the registers are; 0 = there are none */
struct windows {
	uintptr_t console;   /* of the console's UART */
	uintptr_t pci_ports; /* port 0 of the PCI bus */
	u64 ticks_per_ms;
	u32 line_bytes; /* 0: there are no instructions to write one back */
};

extern struct windows windows;

#define TICKS_PER_MS windows.ticks_per_ms
#define LINE_BYTES windows.line_bytes
#define CONSOLE_PORT 0x3f8u
#define CONSOLE_PORTS 8u

static inline uintptr_t port_at(u16 port)
{
	u32 offset = (u32)port - CONSOLE_PORT;

	return offset < CONSOLE_PORTS ? windows.console + offset :
					windows.pci_ports + port;
}

/* What is not there reads as on an open bus. */
static inline bool port_is_there(u16 port)
{
	return port_at(port) >= GO_PAGE_BYTES * 16;
}

/* Accesses to devices stay in their order, and in that of memory. */
static inline void io_fence(void)
{
	__asm__ volatile("fence iorw, iorw" : : : "memory");
}

#define PORT_ACCESS(bits)                                                \
	static inline u##bits read##bits(uintptr_t at)                   \
	{                                                                \
		u##bits value;                                           \
                                                                         \
		io_fence();                                              \
		value = *(volatile u##bits *)at;                         \
		io_fence();                                              \
		return value;                                            \
	}                                                                \
                                                                         \
	static inline void write##bits(uintptr_t at, u##bits value)      \
	{                                                                \
		io_fence();                                              \
		*(volatile u##bits *)at = value;                         \
		io_fence();                                              \
	}                                                                \
                                                                         \
	static inline u##bits in##bits(u16 port)                         \
	{                                                                \
		return port_is_there(port) ? read##bits(port_at(port)) : \
					     (u##bits) ~0u;              \
	}                                                                \
                                                                         \
	static inline void out##bits(u16 port, u##bits value)            \
	{                                                                \
		if (port_is_there(port))                                 \
			write##bits(port_at(port), value);               \
	}

PORT_ACCESS(8)
PORT_ACCESS(16)
PORT_ACCESS(32)

static inline u64 read_ticks(void)
{
	u64 value;

	__asm__ volatile("rdtime %0" : "=r"(value) : : "memory");
	return value;
}

/* Zihintpause; a hart without it takes it for a fence that orders nothing. */
static inline void relax(void)
{
	__asm__ volatile(".4byte 0x0100000f" : : : "memory");
}

static inline void fence(void)
{
	__asm__ volatile("fence iorw, iorw" : : : "memory");
}

/* Write a cache line to memory: CBO.FLUSH (Zicbom). Only where LINE_BYTES is not 0. */
static inline void flush_line(uintptr_t line)
{
	__asm__ volatile(".insn i 0x0f, 2, x0, %0, 2" : : "r"(line) : "memory");
}

static inline _Noreturn void halt(void)
{
	for (;;)
		__asm__ volatile("csrw sie, zero; wfi" : : : "memory");
}

#endif /* LOADER_RISCV_IO_H */
