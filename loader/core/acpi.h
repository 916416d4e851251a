/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Firmware's ACPI tables: list them, find NVRAM and CPUs in them, and copy them
 * from DRAM to NVRAM.
 */
#ifndef LOADER_ACPI_H
#define LOADER_ACPI_H

#include "ranges.h"

#define ACPI_HEADER_BYTES 36u
#define ACPI_TABLES_MAX 64
/* Far more than any real table has; a larger length is damage. */
#define ACPI_TABLE_BYTES_MAX 0x100000u

#define ACPI_SIGNATURE(a, b, c, d) \
	((u32)(a) | (u32)(b) << 8 | (u32)(c) << 16 | (u32)(d) << 24)

struct acpi_table {
	u64 phys;
	u32 bytes;
	u32 signature;
	const u8 *data;
};

/*
 * struct acpi_tables - all tables reached from the RSDP, except RSDT and XSDT
 *
 * This includes DSDT and FACS, which only the FADT points to.
 */
struct acpi_tables {
	u32 count;
	struct acpi_table table[ACPI_TABLES_MAX];
};

/*
 * Physical address of the RSDP in [@phys, @phys + @bytes), on a 16-byte
 * boundary as specified; 0 = none.
 */
u64 acpi_find_rsdp(const struct loader_memory *memory, u64 phys, u64 bytes);

/*
 * Fill @ret_tables. False if the RSDP or its root table is missing or has a
 * wrong checksum. Other tables with a wrong checksum are left out, as in Linux.
 */
bool acpi_list(const struct loader_memory *memory, u64 rsdp_phys,
	       struct acpi_tables *ret_tables);

/* First table of @signature, or NULL. */
const struct acpi_table *acpi_find(const struct acpi_tables *tables,
				   u32 signature);

/* Add the persistent ranges of the NFIT; false if one has no room. */
bool acpi_nvram(const struct acpi_tables *tables, struct ranges *ranges);

/*
 * True if an NVDIMM has failed to save, restore, flush or map its content, so that
 * it may have lost what was in it.
 */
bool acpi_nvram_lost(const struct acpi_tables *tables);

/* APIC ids of the enabled CPUs of the MADT, in its order. */
u32 acpi_cpus(const struct acpi_tables *tables, u32 *ret_apic_id, u32 max);

/*
 * CRC32C of a table, with its checksum, the addresses of other tables and of the
 * TPM's log, and the states of NVDIMMs replaced by zeros. Addresses of hardware are included: a running
 * kernel uses them, so with other addresses it is another machine.
 */
u32 acpi_crc(const struct acpi_table *table);

/* I/O port of the 3.579545 MHz timer, 0 = none. */
u16 acpi_timer_port(const struct acpi_tables *tables);

/*
 * Copy all tables to @to, which the kernel reads at @to_phys, after a new RSDP
 * and XSDT. Returns the physical address of that RSDP, or 0 if they do not fit.
 */
u64 acpi_copy(const struct acpi_tables *tables, u8 *to, u64 to_phys,
	      u32 to_bytes);

#endif /* LOADER_ACPI_H */
