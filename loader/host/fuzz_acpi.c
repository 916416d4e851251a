/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damaged ACPI tables. The input is the memory at FAKE_PHYS; if its first byte is
 * odd, checksums at the usual places are corrected, so that mutations get past
 * them. Nothing outside may be read, and a copy must have the same tables.
 */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "build_acpi.h"

#define COPY_PHYS 0x100080000ull
#define COPY_BYTES 0x80000u

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

static void use_copy(const struct acpi_tables *tables)
{
	static u8 copy[COPY_BYTES];
	struct loader_memory there = {
		.base = (uintptr_t)copy,
		.phys = COPY_PHYS,
		.bytes = COPY_BYTES,
	};
	struct acpi_tables again;
	u64 rsdp = acpi_copy(tables, copy, COPY_PHYS, COPY_BYTES);

	if (rsdp && !acpi_list(&there, rsdp, &again))
		abort();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct loader_memory reach = { .phys = FAKE_PHYS, .bytes = bytes };
	struct ranges ranges = { .count = 0 };
	struct acpi_tables tables;
	u32 cpu[4];
	u8 *memory;
	u64 rsdp;

	if (!bytes)
		return 0;
	crc32c_init(true);
	/* Exactly as long as the input, so that ASan detects overruns. */
	memory = malloc(bytes);
	memcpy(memory, data, bytes);
	if (bytes >= FAKE_BYTES && memory[0] & 1)
		build_acpi_reseal(memory);
	reach.base = (uintptr_t)memory;
	rsdp = acpi_find_rsdp(&reach, FAKE_PHYS, bytes);
	if (rsdp && acpi_list(&reach, rsdp, &tables)) {
		acpi_nvram(&tables, &ranges);
		if (ranges.count > REM_RANGES_MAX ||
		    acpi_cpus(&tables, cpu, 4) > 4)
			abort();
		for (u32 i = 1; i < ranges.count; i++)
			if (ranges.range[i - 1].base +
				    ranges.range[i - 1].bytes >
			    ranges.range[i].base)
				abort();
		acpi_nvram_lost(&tables);
		for (u32 i = 0; i < tables.count; i++)
			acpi_crc(&tables.table[i]);
		acpi_timer_port(&tables);
		use_copy(&tables);
	}
	free(memory);
	return 0;
}
