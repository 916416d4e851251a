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
	struct ranges ranges = { .count = 0 };
	u32 cpu[8];

	CHECK(acpi_find_rsdp(&reach, FAKE_PHYS, FAKE_BYTES) == FAKE_RSDP,
	      "RSDP");
	CHECK(acpi_list(&reach, FAKE_RSDP, &tables), "list");
	CHECK(tables.count == 5, "%u tables", tables.count);
	CHECK(acpi_cpus(&tables, cpu, 8) == FAKE_CPUS, "CPUs");
	CHECK(cpu[0] == 0 && cpu[1] == 2 && cpu[2] == 0x1234, "APIC ids");
	CHECK(acpi_cpus(&tables, cpu, 2) == 2, "no more than the limit");
	CHECK(acpi_nvram(&tables, &ranges) && ranges.count == FAKE_NVRAM,
	      "NVRAM");
	CHECK(ranges.range[0].base == 0x100000000ull &&
		      ranges.range[1].base == 0x300000000ull,
	      "bases");
	CHECK(acpi_nvram(&tables, &ranges) && ranges.count == FAKE_NVRAM,
	      "the same ranges again");
	CHECK(acpi_timer_port(&tables) == 0x608, "timer");
}

/* With any byte damaged, the checksum of a table is wrong and it is left out. */
static void damaged_tables_are_left_out(void)
{
	struct acpi_tables tables;

	for (u32 at = 0; at < FAKE_NFIT_BYTES; at++) {
		memory[FAKE_NFIT + at] ^= 0x10;
		CHECK(!acpi_list(&reach, FAKE_RSDP, &tables) ||
			      !acpi_find(&tables,
					 ACPI_SIGNATURE('N', 'F', 'I', 'T')),
		      "NFIT byte %u", at);
		memory[FAKE_NFIT + at] ^= 0x10;
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

/* The health of an NVDIMM may differ; that it has lost its content is refused. */
static void states_are_no_difference(void)
{
	static const u16 lost[] = { 1, 2, 4, 0x40, 0x41 };
	static const u16 other[] = { 8, 0x10, 0x20, 0x80, 0x38 };
	struct acpi_tables tables;
	const struct acpi_table *nfit;
	u32 crc;

	acpi_list(&reach, FAKE_RSDP, &tables);
	nfit = acpi_find(&tables, ACPI_SIGNATURE('N', 'F', 'I', 'T'));
	crc = acpi_crc(nfit);
	CHECK(!acpi_nvram_lost(&tables), "nothing is lost");
	for (u32 i = 0; i < GO_COUNT(other); i++) {
		put_u16(memory + FAKE_NFIT_STATE, other[i]);
		CHECK(acpi_crc(nfit) == crc, "state %x is hashed", other[i]);
		CHECK(!acpi_nvram_lost(&tables), "state %x", other[i]);
	}
	for (u32 i = 0; i < GO_COUNT(lost); i++) {
		put_u16(memory + FAKE_NFIT_STATE, lost[i]);
		CHECK(acpi_nvram_lost(&tables), "state %x: lost", lost[i]);
	}
	put_u16(memory + FAKE_NFIT_STATE, 0);
	for (u32 at = 10; at < FAKE_NFIT_BYTES; at++) {
		memory[FAKE_NFIT + at] ^= 1;
		CHECK((acpi_crc(nfit) == crc) ==
			      (FAKE_NFIT + at == FAKE_NFIT_STATE ||
			       FAKE_NFIT + at == FAKE_NFIT_STATE + 1),
		      "byte %u", at);
		memory[FAKE_NFIT + at] ^= 1;
	}
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
	states_are_no_difference();
	copy_is_complete();
}
