/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "build_acpi.h"
#include "check.h"

#define COPY_PHYS 0x100080000ull
#define COPY_BYTES 8192u

static u8 memory[FAKE_BYTES];
static const struct loader_memory reach = {
	.base = (uintptr_t)memory,
	.phys = FAKE_PHYS,
	.bytes = FAKE_BYTES,
};

static void finds_cpus_and_nvram(void)
{
	struct acpi_tables tables;
	struct acpi_range range[4];
	u32 cpu[8];

	CHECK(acpi_find_rsdp(&reach, FAKE_PHYS, FAKE_BYTES) == FAKE_RSDP,
	      "RSDP");
	CHECK(acpi_list(&reach, FAKE_RSDP, &tables), "list");
	CHECK(tables.count == 5, "%u tables", tables.count);
	CHECK(acpi_cpus(&tables, cpu, 8) == FAKE_CPUS, "CPUs");
	CHECK(cpu[0] == 0 && cpu[1] == 2 && cpu[2] == 0x1234, "APIC ids");
	CHECK(acpi_cpus(&tables, cpu, 2) == 2, "no more than the limit");
	CHECK(acpi_nvram(&tables, range, 4) == FAKE_NVRAM, "NVRAM");
	CHECK(range[0].base == 0x100000000ull &&
		      range[1].base == 0x300000000ull,
	      "bases");
	CHECK(acpi_nvram(&tables, range, 1) == 1, "no more than the limit");
	CHECK(acpi_timer_port(&tables) == 0x608, "timer");
}

/* With any byte damaged, the checksum of a table is wrong and it is left out. */
static void damaged_tables_are_left_out(void)
{
	struct acpi_tables tables;

	for (u32 at = 0; at < 40 + 3 * 56; at++) {
		memory[0x400 + at] ^= 0x10;
		CHECK(!acpi_list(&reach, FAKE_RSDP, &tables) ||
			      !acpi_find(&tables,
					 ACPI_SIGNATURE('N', 'F', 'I', 'T')),
		      "NFIT byte %u", at);
		memory[0x400 + at] ^= 0x10;
	}
	for (u32 at = 0; at < 20; at++) {
		memory[0x20 + at] ^= 1;
		CHECK(!acpi_list(&reach, FAKE_RSDP, &tables), "RSDP byte %u",
		      at);
		CHECK(!acpi_find_rsdp(&reach, FAKE_PHYS, FAKE_BYTES),
		      "RSDP byte %u found", at);
		memory[0x20 + at] ^= 1;
	}
	CHECK(!acpi_list(&reach, FAKE_PHYS + FAKE_BYTES - 10, &tables),
	      "RSDP at the end of memory");
}

static void crc_ignores_what_moves(void)
{
	struct acpi_tables tables;
	const struct acpi_table *fadt;
	u32 crc;

	acpi_list(&reach, FAKE_RSDP, &tables);
	fadt = acpi_find(&tables, ACPI_SIGNATURE('F', 'A', 'C', 'P'));
	crc = acpi_crc(fadt);
	memory[0x100 + 36] ^= 0xff;
	memory[0x100 + 43] ^= 0xff;
	memory[0x100 + 9] ^= 0xff;
	CHECK(acpi_crc(fadt) == crc, "pointers and checksum are left out");
	memory[0x100 + 44] ^= 1;
	CHECK(acpi_crc(fadt) != crc, "the byte after them is not");
	build_acpi(memory);
}

/* The copy must be found and have the same tables. */
static void copy_is_complete(void)
{
	static u8 copy[COPY_BYTES];
	struct loader_memory there = {
		.base = (uintptr_t)copy,
		.phys = COPY_PHYS,
		.bytes = COPY_BYTES,
	};
	struct acpi_tables tables, again;
	bool fits = false;
	u64 rsdp;

	acpi_list(&reach, FAKE_RSDP, &tables);
	rsdp = acpi_copy(&tables, copy, COPY_PHYS, COPY_BYTES);
	CHECK(rsdp == COPY_PHYS, "RSDP of the copy");
	CHECK(acpi_list(&there, rsdp, &again), "tables of the copy");
	CHECK(again.count == tables.count, "%u of %u tables", again.count,
	      tables.count);
	for (u32 i = 0; i < again.count; i++)
		CHECK(again.table[i].signature == tables.table[i].signature,
		      "order");
	CHECK(acpi_find(&again, ACPI_SIGNATURE('D', 'S', 'D', 'T')), "DSDT");
	CHECK(acpi_find(&again, ACPI_SIGNATURE('F', 'A', 'C', 'S')), "FACS");

	/* Areas that are too small are refused; ASan detects overruns. */
	for (u32 bytes = 0; bytes < COPY_BYTES; bytes += 4) {
		u8 *tight = malloc(bytes ? bytes : 1);
		u64 phys = acpi_copy(&tables, tight, COPY_PHYS, bytes);

		CHECK(!fits || phys, "fits, but not %u bytes", bytes);
		fits |= phys != 0;
		CHECK(!fits || bytes > 512, "%u bytes suffice", bytes);
		free(tight);
	}
	CHECK(fits, "some size fits");
}

void test_acpi(void)
{
	crc32c_init(true);
	build_acpi(memory);
	finds_cpus_and_nvram();
	damaged_tables_are_left_out();
	crc_ignores_what_moves();
	copy_is_complete();
}
