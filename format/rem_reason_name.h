/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The stable names of the loader's decisions (enum rem_boot_reason). The loader
 * prints them on the console, the kernel in /sys/kernel/remanence/last_boot. This
 * is the only list of them in C.
 */
#ifndef REM_REASON_NAME_H
#define REM_REASON_NAME_H

#ifdef __KERNEL__
#include <linux/remanence/rem_image.h>
#else
#include "rem_image.h"
#endif

/* A name is that of its enumerator; tests/unit/test_docs.py compares them. */
static inline const char *rem_reason_name(rem_u32 reason)
{
	switch (reason) {
	case REM_BOOT_RESUME:
		return "resume";
	case REM_BOOT_HOLD:
		return "hold";
	case REM_COLD_NO_BLOCK:
		return "no-block";
	case REM_COLD_BLOCK_VERSION:
		return "block-version";
	case REM_COLD_CONSUMED_INVALID:
		return "consumed-invalid";
	case REM_COLD_NOT_COMMITTED:
		return "not-committed";
	case REM_COLD_ALREADY_CONSUMED:
		return "already-consumed";
	case REM_COLD_COMMIT_DAMAGED:
		return "commit-damaged";
	case REM_COLD_BODY_MAGIC:
		return "body-magic";
	case REM_COLD_BODY_VERSION:
		return "body-version";
	case REM_COLD_BODY_SIZE:
		return "body-size";
	case REM_COLD_BODY_CRC:
		return "body-crc";
	case REM_COLD_BODY_FIELD:
		return "body-field";
	case REM_COLD_CPU_LOST:
		return "cpu-lost";
	case REM_COLD_MICROCODE:
		return "microcode";
	case REM_COLD_TSC:
		return "tsc";
	case REM_COLD_KERNEL_DIFFERS:
		return "kernel-differs";
	case REM_COLD_CPU_DIFFERS:
		return "cpu-differs";
	case REM_COLD_CPUID_DIFFERS:
		return "cpuid-differs";
	case REM_COLD_MEMORY_DIFFERS:
		return "memory-differs";
	case REM_COLD_PCI_DIFFERS:
		return "pci-differs";
	case REM_COLD_ACPI_DIFFERS:
		return "acpi-differs";
	case REM_COLD_DISK_DIFFERS:
		return "disk-differs";
	case REM_COLD_MACHINE_UNKNOWN:
		return "machine-unknown";
	case REM_COLD_MACHINE_TOO_LARGE:
		return "machine-too-large";
	case REM_COLD_ASKED:
		return "asked";
	case REM_COLD_NVDIMM_EMPTY:
		return "nvdimm-empty";
	case REM_COLD_NVDIMM_PARTIAL:
		return "nvdimm-partial";
	case REM_COLD_NVDIMM_FAILED:
		return "nvdimm-failed";
	default:
		return "unknown";
	}
}

#endif /* REM_REASON_NAME_H */
