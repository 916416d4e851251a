/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A small firmware's tables, for tests and as a fuzzer's seed. */
#ifndef GO_BUILD_ACPI_H
#define GO_BUILD_ACPI_H

#include "../core/acpi.h"

#define FAKE_PHYS 0x7f000u
#define FAKE_BYTES 4096u
#define FAKE_RSDP (FAKE_PHYS + 0x20)
#define FAKE_CPUS 3
#define FAKE_NVRAM 2

/*
 * Fill FAKE_BYTES that are read at FAKE_PHYS: RSDP, RSDT, FADT with DSDT and
 * FACS, MADT with three enabled CPUs of five, NFIT with two persistent ranges
 * of three.
 */
void build_acpi(u8 *memory);

/* Make the checksums of those tables right again. */
void build_acpi_reseal(u8 *memory);

#endif /* GO_BUILD_ACPI_H */
