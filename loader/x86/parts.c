/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A machine of x86: ACPI tells of it, CPUID of its CPUs. */
#include "../main/parts.h"

#include "../core/crc32c.h"
#include "../hw/console.h"
#include "../hw/fault.h"
#include "../hw/io.h"

/* The RSDP is here on BIOS machines if the front end does not know it. */
#define BIOS_AREA_PHYS 0xe0000u
#define BIOS_AREA_BYTES 0x20000u

#define CPUID_1_ECX_SSE42 (1u << 20)
#define LEAF_TOPOLOGY 0xbu
#define SIG_FACS ACPI_SIGNATURE('F', 'A', 'C', 'S')

/* Tables below 4 GiB, which the page tables of the entry code map. */
static const struct loader_memory low_memory = {
	.base = 0,
	.phys = 0,
	.bytes = 1ull << 32,
};

void parts_open(void)
{
	fault_open();
	crc32c_init(read_cpuid(1, 0).ecx & CPUID_1_ECX_SSE42);
}

void tables_find(struct machine *machine)
{
	u64 rsdp = machine->front->rsdp_phys;

	if (!rsdp)
		rsdp = acpi_find_rsdp(&low_memory, BIOS_AREA_PHYS,
				      BIOS_AREA_BYTES);
	if (!rsdp || !acpi_list(&low_memory, rsdp, &machine->acpi))
		die("no ACPI tables with valid checksums");
}

const char *kernel_parse(struct machine *machine)
{
	return bz_parse(machine->kernel_head, machine->kernel_file_bytes,
			&machine->kernel);
}

/* A bzImage ends with its own. */
void kernel_identify(const struct machine *machine, u64 value[5])
{
	u32 crc;

	if (!machine->front->read(FRONT_KERNEL, machine->kernel_file_bytes - 4,
				  &crc, 4))
		die("reading the end of the kernel failed");
	value[0] = crc;
}

struct leaf {
	u32 leaf, subleaf;
	/* Bits that identify a CPU, or depend on CR4 or XCR0. */
	u32 ebx_volatile, ecx_volatile;
};

static const struct leaf leaves[] = {
	{ 0x0, 0, 0, 0 },
	{ 0x1, 0, 0xff000000u, 1u << 27 }, /* APIC id; OSXSAVE */
	{ 0x7, 0, 0, 1u << 4 },		   /* OSPKE */
	{ 0x7, 1, 0, 0 },
	{ 0xd, 0, 0xffffffffu, 0 }, /* size for the current XCR0 */
	{ 0xd, 1, 0xffffffffu, 0 },
	{ 0x80000001, 0, 0, 1u << 3 }, /* extended APIC space */
	{ 0x80000008, 0, 0, 0 },
};

/* Of this CPU: with 32 bits where it has them. */
static u32 boot_apic_id(void)
{
	if (read_cpuid(0, 0).eax >= LEAF_TOPOLOGY) {
		struct cpuid topology = read_cpuid(LEAF_TOPOLOGY, 0);

		if (topology.ebx)
			return topology.edx;
	}
	return read_cpuid(1, 0).ebx >> 24;
}

static void add_ids(const struct machine *machine, struct desc *desc)
{
	static u32 apic_id[MACHINE_CPUS_MAX];
	u32 count = acpi_cpus(&machine->acpi, apic_id, MACHINE_CPUS_MAX);

	desc_add_cpus(desc, apic_id, count, boot_apic_id());
}

static void add_cpuid(struct desc *desc)
{
	u32 basic_max = read_cpuid(0, 0).eax;
	u32 extended_max = read_cpuid(0x80000000, 0).eax;

	for (u32 i = 0; i < GO_COUNT(leaves); i++) {
		const struct leaf *leaf = &leaves[i];
		struct cpuid out;
		u64 value[3];

		if (leaf->leaf >
		    (leaf->leaf & 0x80000000u ? extended_max : basic_max))
			continue;
		out = read_cpuid(leaf->leaf, leaf->subleaf);
		value[0] = out.eax | (u64)(out.ebx & ~leaf->ebx_volatile) << 32;
		value[1] = (out.ecx & ~leaf->ecx_volatile) | (u64)out.edx << 32;
		value[2] = leaf->subleaf;
		desc_add(desc, REM_DESC_CPUID, leaf->leaf, value, 3);
	}
}

void describe_cpus(const struct machine *machine, struct desc *desc)
{
	add_ids(machine, desc);
	add_cpuid(desc);
}

void describe_firmware(const struct machine *machine, struct desc *desc)
{
	const struct acpi_tables *acpi = &machine->acpi;

	for (u32 i = 0; i < acpi->count; i++) {
		const struct acpi_table *table = &acpi->table[i];

		if (table->signature == SIG_FACS)
			continue;
		desc_add(desc, REM_DESC_ACPI, table->signature,
			 (u64[2]){ acpi_crc(table), table->bytes }, 2);
	}
}
