/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "build_acpi.h"

#define RSDP 0x020
#define RSDT 0x080
#define FADT 0x100
#define MADT 0x280
#define NFIT FAKE_NFIT
#define DSDT 0x700
#define FACS 0x800

static const u32 table_at[] = { RSDT, FADT, MADT, NFIT, DSDT };

static void checksum(u8 *data, u32 bytes, u32 at)
{
	u8 sum = 0;

	data[at] = 0;
	for (u32 i = 0; i < bytes; i++)
		sum = (u8)(sum + data[i]);
	data[at] = (u8)-sum;
}

void build_acpi_reseal(u8 *memory)
{
	checksum(memory + RSDP, 20, 8);
	for (u32 i = 0; i < GO_COUNT(table_at); i++) {
		u8 *table = memory + table_at[i];
		u32 bytes = get_u32(table + 4);

		if (bytes >= ACPI_HEADER_BYTES &&
		    bytes <= FAKE_BYTES - table_at[i])
			checksum(table, bytes, 9);
	}
}

static void header(u8 *table, const char *signature, u32 bytes)
{
	memcpy(table, signature, 4);
	put_u32(table + 4, bytes);
}

static void build_madt(u8 *madt)
{
	u32 at = 44;

	for (u32 i = 0; i < 4; i++, at += 8) {
		madt[at] = 0;
		madt[at + 1] = 8;
		madt[at + 2] = (u8)i;
		madt[at + 3] = (u8)(i * 2);
		put_u32(madt + at + 4, i < 2);
	}
	madt[at] = 9;
	madt[at + 1] = 16;
	put_u32(madt + at + 4, 0x1234);
	put_u32(madt + at + 8, 1);
	header(madt, "APIC", at + 16);
}

static void build_nfit(u8 *nfit)
{
	static const u8 persistent[16] = {
		0x79, 0xd3, 0xf0, 0x66, 0xf3, 0xb4, 0x74, 0x40,
		0xac, 0x43, 0x0d, 0x33, 0x18, 0xb7, 0x8c, 0xdb,
	};
	u32 at = 40;

	for (u32 i = 0; i < 3; i++, at += 56) {
		put_u16(nfit + at, 0);
		put_u16(nfit + at + 2, 56);
		/* The middle one has another type. */
		if (i != 1)
			memcpy(nfit + at + 16, persistent, 16);
		put_u64(nfit + at + 32, 0x100000000ull * (i + 1));
		put_u64(nfit + at + 40, 0x40000000ull);
	}
	put_u16(nfit + at, 1);
	put_u16(nfit + at + 2, 48);
	header(nfit, "NFIT", FAKE_NFIT_BYTES);
}

void build_acpi(u8 *memory)
{
	u8 *fadt = memory + FADT;

	memset(memory, 0, FAKE_BYTES);
	memcpy(memory + RSDP, "RSD PTR ", 8);
	put_u32(memory + RSDP + 16, FAKE_PHYS + RSDT);
	header(memory + RSDT, "RSDT", 36 + 3 * 4);
	put_u32(memory + RSDT + 36, FAKE_PHYS + FADT);
	put_u32(memory + RSDT + 40, FAKE_PHYS + MADT);
	put_u32(memory + RSDT + 44, FAKE_PHYS + NFIT);
	header(fadt, "FACP", 116);
	put_u32(fadt + 36, FAKE_PHYS + FACS);
	put_u32(fadt + 40, FAKE_PHYS + DSDT);
	put_u32(fadt + 76, 0x608);
	build_madt(memory + MADT);
	build_nfit(memory + NFIT);
	header(memory + DSDT, "DSDT", 50);
	header(memory + FACS, "FACS", 64);
	build_acpi_reseal(memory);
}
