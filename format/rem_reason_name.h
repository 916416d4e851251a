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
	static const struct {
		rem_u32 reason;
		const char *name;
	} names[] = {
		{ REM_BOOT_RESUME, "resume" },
		{ REM_BOOT_HOLD, "hold" },
		{ REM_COLD_NO_BLOCK, "no-block" },
		{ REM_COLD_BLOCK_VERSION, "block-version" },
		{ REM_COLD_CONSUMED_INVALID, "consumed-invalid" },
		{ REM_COLD_NOT_COMMITTED, "not-committed" },
		{ REM_COLD_ALREADY_CONSUMED, "already-consumed" },
		{ REM_COLD_COMMIT_DAMAGED, "commit-damaged" },
		{ REM_COLD_BODY_MAGIC, "body-magic" },
		{ REM_COLD_BODY_VERSION, "body-version" },
		{ REM_COLD_BODY_SIZE, "body-size" },
		{ REM_COLD_BODY_CRC, "body-crc" },
		{ REM_COLD_BODY_FIELD, "body-field" },
		{ REM_COLD_CPU_LOST, "cpu-lost" },
		{ REM_COLD_MICROCODE, "microcode" },
		{ REM_COLD_TSC, "tsc" },
		{ REM_COLD_KERNEL_DIFFERS, "kernel-differs" },
		{ REM_COLD_CPU_DIFFERS, "cpu-differs" },
		{ REM_COLD_CPUID_DIFFERS, "cpuid-differs" },
		{ REM_COLD_MEMORY_DIFFERS, "memory-differs" },
		{ REM_COLD_PCI_DIFFERS, "pci-differs" },
		{ REM_COLD_ACPI_DIFFERS, "acpi-differs" },
		{ REM_COLD_DISK_DIFFERS, "disk-differs" },
		{ REM_COLD_MACHINE_UNKNOWN, "machine-unknown" },
		{ REM_COLD_MACHINE_TOO_LARGE, "machine-too-large" },
		{ REM_COLD_TPM_DIFFERS, "tpm-differs" },
		{ REM_COLD_MEASURED_DIFFERS, "measured-differs" },
		{ REM_COLD_ISA_DIFFERS, "isa-differs" },
		{ REM_COLD_TREE_DIFFERS, "tree-differs" },
		{ REM_COLD_ASKED, "asked" },
		{ REM_COLD_NVDIMM_EMPTY, "nvdimm-empty" },
		{ REM_COLD_NVDIMM_PARTIAL, "nvdimm-partial" },
		{ REM_COLD_NVDIMM_FAILED, "nvdimm-failed" },
		{ REM_COLD_NOT_AUTHENTICATED, "not-authenticated" },
		{ REM_COLD_REPLAYED, "replayed" },
		{ REM_COLD_FORGED, "forged" },
	};
	rem_u32 i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].reason == reason)
			return names[i].name;
	return "unknown";
}

#endif /* REM_REASON_NAME_H */
