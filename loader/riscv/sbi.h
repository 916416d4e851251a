/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Calls of machine-mode firmware (RISC-V SBI Specification 2.0). */
#ifndef LOADER_SBI_H
#define LOADER_SBI_H

#include "../core/base.h"

#define SBI_BASE 0x10u
#define SBI_BASE_FIRMWARE 1u
#define SBI_BASE_FIRMWARE_VERSION 2u
#define SBI_BASE_VENDOR 4u
#define SBI_BASE_ARCHITECTURE 5u
#define SBI_BASE_IMPLEMENTATION 6u

#define SBI_HSM 0x48534du
#define SBI_HSM_START 0u
#define SBI_HSM_STOP 1u

struct sbi_result {
	long error;
	long value;
};

static inline struct sbi_result sbi_call(u32 extension, u32 function,
					 unsigned long first,
					 unsigned long second,
					 unsigned long third)
{
	register unsigned long a0 __asm__("a0") = first;
	register unsigned long a1 __asm__("a1") = second;
	register unsigned long a2 __asm__("a2") = third;
	register unsigned long a6 __asm__("a6") = function;
	register unsigned long a7 __asm__("a7") = extension;

	__asm__ volatile("ecall"
			 : "+r"(a0), "+r"(a1)
			 : "r"(a2), "r"(a6), "r"(a7)
			 : "memory");
	return (struct sbi_result){ (long)a0, (long)a1 };
}

#endif /* LOADER_SBI_H */
