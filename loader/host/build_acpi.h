/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The tables of a small firmware, for tests and as a fuzzer's seed. */
#ifndef LOADER_BUILD_ACPI_H
#define LOADER_BUILD_ACPI_H

#include "../core/acpi.h"

#define FAKE_PHYS 0x7f000u
#define FAKE_BYTES 4096u
#define FAKE_RSDP (FAKE_PHYS + 0x20)
#define FAKE_CPUS 3
#define FAKE_NVRAM 2
#define FAKE_NFIT 0x400
#define FAKE_NFIT_BYTES (40 + 3 * 56 + 48)
#define FAKE_NFIT_STATE (FAKE_NFIT + FAKE_NFIT_BYTES - 48 + 44)

/*
 * Fill FAKE_BYTES, to be read at FAKE_PHYS: RSDP, RSDT, FADT with DSDT and FACS,
 * MADT with three enabled CPUs of five, NFIT with two persistent ranges of three
 * and the state of an NVDIMM.
 */
void build_acpi(u8 *memory);

/* Correct the checksums of these tables. */
void build_acpi_reseal(u8 *memory);

#endif /* LOADER_BUILD_ACPI_H */
