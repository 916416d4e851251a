/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "acpi.h"

#include "crc32c.h"

/* ACPI 6.5: 5.2.5.3 RSDP, 5.2.6 header, 5.2.9 FADT, 5.2.12 MADT, 5.2.25 NFIT */
#define RSDP_BYTES_V1 20u
#define RSDP_BYTES 36u
#define RSDP_REVISION 15
#define RSDP_RSDT 16
#define RSDP_LENGTH 20
#define RSDP_XSDT 24
#define RSDP_CHECKSUM 8
#define RSDP_CHECKSUM_EXTENDED 32

#define HEADER_LENGTH 4
#define HEADER_CHECKSUM 9

/* TCG ACPI Specification 1.3, 8: the address of the log of measurements. */
#define TPM2_LOG 68u

#define FADT_FACS 36u
#define FADT_DSDT 40u
#define FADT_PM_TIMER 76u
#define FADT_X_FACS 132u
#define FADT_X_DSDT 140u
#define FADT_X_END 148u

#define MADT_ENTRIES 44u
#define MADT_LAPIC 0
#define MADT_X2APIC 9
#define MADT_ENABLED 1u

#define NFIT_ENTRIES 40u
#define NFIT_SPA 0
#define NFIT_SPA_BYTES 56u
#define NFIT_REGION 1
#define NFIT_REGION_BYTES 48u
#define NFIT_REGION_STATE 44
/* What was in memory may be lost: save, restore or flush failed, not mapped. */
#define NFIT_STATE_LOST 0x47u

#define SIG_RSDT ACPI_SIGNATURE('R', 'S', 'D', 'T')
#define SIG_XSDT ACPI_SIGNATURE('X', 'S', 'D', 'T')
#define SIG_FADT ACPI_SIGNATURE('F', 'A', 'C', 'P')
#define SIG_FACS ACPI_SIGNATURE('F', 'A', 'C', 'S')
#define SIG_DSDT ACPI_SIGNATURE('D', 'S', 'D', 'T')
#define SIG_MADT ACPI_SIGNATURE('A', 'P', 'I', 'C')
#define SIG_NFIT ACPI_SIGNATURE('N', 'F', 'I', 'T')
#define SIG_TPM2 ACPI_SIGNATURE('T', 'P', 'M', '2')

/* 66f0d379-b4f3-4074-ac43-0d3318b78cdb: byte-addressable persistent memory. */
static const u8 spa_persistent[16] = {
	0x79, 0xd3, 0xf0, 0x66, 0xf3, 0xb4, 0x74, 0x40,
	0xac, 0x43, 0x0d, 0x33, 0x18, 0xb7, 0x8c, 0xdb,
};

static u8 sum(const u8 *data, u32 bytes)
{
	u8 total = 0;

	for (u32 i = 0; i < bytes; i++)
		total = (u8)(total + data[i]);
	return total;
}

static void set_checksum(u8 *data, u32 bytes, u32 at)
{
	data[at] = 0;
	data[at] = (u8)-sum(data, bytes);
}

static bool rsdp_checks(const u8 *rsdp)
{
	return !memcmp(rsdp, "RSD PTR ", 8) && !sum(rsdp, RSDP_BYTES_V1);
}

u64 acpi_find_rsdp(const struct loader_memory *memory, u64 phys, u64 bytes)
{
	const u8 *area = go_at(memory, phys, bytes);

	if (!area)
		return 0;
	for (u64 at = 0; at + RSDP_BYTES <= bytes; at += 16)
		if (rsdp_checks(area + at))
			return phys + at;
	return 0;
}

/* A table with a header; false if it is missing or has a wrong checksum. */
static bool read_table(const struct loader_memory *memory, u64 phys,
		       struct acpi_table *ret_table)
{
	const u8 *data = go_at(memory, phys, ACPI_HEADER_BYTES);
	u32 bytes;

	if (!phys || !data)
		return false;
	bytes = get_u32(data + HEADER_LENGTH);
	if (bytes < ACPI_HEADER_BYTES || bytes > ACPI_TABLE_BYTES_MAX ||
	    !go_at(memory, phys, bytes) || sum(data, bytes))
		return false;
	*ret_table = (struct acpi_table){
		.phys = phys,
		.bytes = bytes,
		.signature = get_u32(data),
		.data = data,
	};
	return true;
}

/* The FACS has a different header without a checksum. */
static bool read_facs(const struct loader_memory *memory, u64 phys,
		      struct acpi_table *ret_table)
{
	const u8 *data = go_at(memory, phys, 64);
	u32 bytes;

	if (!phys || !data || get_u32(data) != SIG_FACS)
		return false;
	bytes = get_u32(data + HEADER_LENGTH);
	if (bytes < 64 || bytes > GO_PAGE_BYTES || !go_at(memory, phys, bytes))
		return false;
	*ret_table = (struct acpi_table){
		.phys = phys,
		.bytes = bytes,
		.signature = SIG_FACS,
		.data = data,
	};
	return true;
}

/* The 64-bit field if it is there and used, else the 32-bit one. */
static u64 fadt_pointer(const struct acpi_table *fadt, u32 wide, u32 narrow)
{
	u64 phys = 0;

	if (fadt->bytes >= wide + 8)
		phys = get_u64(fadt->data + wide);
	if (!phys && fadt->bytes >= narrow + 4)
		phys = get_u32(fadt->data + narrow);
	return phys;
}

static void list_root(const struct loader_memory *memory,
		      const struct acpi_table *root, u32 pointer_bytes,
		      struct acpi_tables *tables)
{
	/* Two entries are left for DSDT and FACS. */
	for (u32 at = ACPI_HEADER_BYTES; root->bytes - at >= pointer_bytes &&
					 tables->count < ACPI_TABLES_MAX - 2;
	     at += pointer_bytes) {
		u64 phys = pointer_bytes == 8 ? get_u64(root->data + at) :
						get_u32(root->data + at);

		if (read_table(memory, phys, &tables->table[tables->count]))
			tables->count++;
	}
}

bool acpi_list(const struct loader_memory *memory, u64 rsdp_phys,
	       struct acpi_tables *ret_tables)
{
	const u8 *rsdp = go_at(memory, rsdp_phys, RSDP_BYTES_V1);
	struct acpi_tables tables = { .count = 0 };
	const struct acpi_table *fadt;
	struct acpi_table root;
	u64 xsdt = 0;

	if (!rsdp || !rsdp_checks(rsdp))
		return false;
	if (rsdp[RSDP_REVISION] >= 2 && go_at(memory, rsdp_phys, RSDP_BYTES))
		xsdt = get_u64(rsdp + RSDP_XSDT);
	if (read_table(memory, xsdt, &root) && root.signature == SIG_XSDT)
		list_root(memory, &root, 8, &tables);
	else if (read_table(memory, get_u32(rsdp + RSDP_RSDT), &root) &&
		 root.signature == SIG_RSDT)
		list_root(memory, &root, 4, &tables);
	else
		return false;

	fadt = acpi_find(&tables, SIG_FADT);
	if (fadt) {
		u64 dsdt = fadt_pointer(fadt, FADT_X_DSDT, FADT_DSDT);
		u64 facs = fadt_pointer(fadt, FADT_X_FACS, FADT_FACS);

		if (read_table(memory, dsdt, &tables.table[tables.count]))
			tables.count++;
		if (read_facs(memory, facs, &tables.table[tables.count]))
			tables.count++;
	}
	*ret_tables = tables;
	return true;
}

const struct acpi_table *acpi_find(const struct acpi_tables *tables,
				   u32 signature)
{
	for (u32 i = 0; i < tables->count; i++)
		if (tables->table[i].signature == signature)
			return &tables->table[i];
	return NULL;
}

/*
 * The next structure of @type in an NFIT, with at least @bytes_min bytes; NULL after
 * the last one. *@at begins at NFIT_ENTRIES and is moved behind it.
 */
static const u8 *nfit_next(const struct acpi_table *nfit, u32 *at, u16 type,
			   u32 bytes_min)
{
	while (*at <= nfit->bytes && nfit->bytes - *at >= 4) {
		const u8 *entry = nfit->data + *at;
		u32 bytes = get_u16(entry + 2);

		if (bytes < 4 || bytes > nfit->bytes - *at)
			break;
		*at += bytes;
		if (get_u16(entry) == type && bytes >= bytes_min)
			return entry;
	}
	return NULL;
}

bool acpi_nvram(const struct acpi_tables *tables, struct ranges *ranges)
{
	const struct acpi_table *nfit = acpi_find(tables, SIG_NFIT);
	u32 at = NFIT_ENTRIES;
	const u8 *entry;
	bool all = true;

	if (!nfit)
		return true;
	while ((entry = nfit_next(nfit, &at, NFIT_SPA, NFIT_SPA_BYTES)))
		if (!memcmp(entry + 16, spa_persistent, 16))
			all &= ranges_add(ranges, get_u64(entry + 32),
					  get_u64(entry + 40));
	return all;
}

bool acpi_nvram_lost(const struct acpi_tables *tables)
{
	const struct acpi_table *nfit = acpi_find(tables, SIG_NFIT);
	u32 at = NFIT_ENTRIES;
	const u8 *entry;

	if (!nfit)
		return false;
	while ((entry = nfit_next(nfit, &at, NFIT_REGION, NFIT_REGION_BYTES)))
		if (get_u16(entry + NFIT_REGION_STATE) & NFIT_STATE_LOST)
			return true;
	return false;
}

u32 acpi_cpus(const struct acpi_tables *tables, u32 *ret_apic_id, u32 max)
{
	const struct acpi_table *madt = acpi_find(tables, SIG_MADT);
	u32 count = 0;
	u32 at = MADT_ENTRIES;

	if (!madt)
		return 0;
	while (at <= madt->bytes && madt->bytes - at >= 2 && count < max) {
		const u8 *entry = madt->data + at;
		u32 bytes = entry[1];

		if (bytes < 2 || bytes > madt->bytes - at)
			break;
		if (entry[0] == MADT_LAPIC && bytes >= 8 &&
		    (get_u32(entry + 4) & MADT_ENABLED))
			ret_apic_id[count++] = entry[3];
		if (entry[0] == MADT_X2APIC && bytes >= 16 &&
		    (get_u32(entry + 8) & MADT_ENABLED))
			ret_apic_id[count++] = get_u32(entry + 4);
		at += bytes;
	}
	return count;
}

/* struct hashing - a checksum that has got to @done */
struct hashing {
	const struct acpi_table *table;
	u32 crc;
	u32 done;
};

/* The next bytes that count as zeros; they are behind those of the call before. */
static void leave_out(struct hashing *hashing, u32 at, u32 bytes)
{
	static const u8 zeros[8];
	const struct acpi_table *table = hashing->table;

	if (at + bytes > table->bytes)
		return;
	hashing->crc = crc32c_add(hashing->crc, table->data + hashing->done,
				  at - hashing->done);
	hashing->crc = crc32c_add(hashing->crc, zeros, bytes);
	hashing->done = at + bytes;
}

/* State of an NVDIMM, such as its health, is not what the machine is made of. */
static void leave_out_states(struct hashing *hashing)
{
	const struct acpi_table *nfit = hashing->table;
	u32 at = NFIT_ENTRIES;
	const u8 *entry;

	while ((entry = nfit_next(nfit, &at, NFIT_REGION, NFIT_REGION_BYTES)))
		leave_out(hashing,
			  (u32)(entry - nfit->data) + NFIT_REGION_STATE, 2);
}

u32 acpi_crc(const struct acpi_table *table)
{
	static const struct {
		u32 at, bytes;
	} fadt_holes[] = {
		{ FADT_FACS, 4 },
		{ FADT_DSDT, 4 },
		{ FADT_X_FACS, 8 },
		{ FADT_X_DSDT, 8 },
	};
	struct hashing hashing = { .table = table, .crc = CRC32C_BEGIN };

	leave_out(&hashing, HEADER_CHECKSUM, 1);
	if (table->signature == SIG_FADT)
		for (u32 i = 0; i < GO_COUNT(fadt_holes); i++)
			leave_out(&hashing, fadt_holes[i].at,
				  fadt_holes[i].bytes);
	/* Of this boot: firmware puts it where it has room. */
	if (table->signature == SIG_TPM2)
		leave_out(&hashing, TPM2_LOG, 8);
	if (table->signature == SIG_NFIT)
		leave_out_states(&hashing);
	return crc32c_end(crc32c_add(hashing.crc, table->data + hashing.done,
				     table->bytes - hashing.done));
}

u16 acpi_timer_port(const struct acpi_tables *tables)
{
	const struct acpi_table *fadt = acpi_find(tables, SIG_FADT);
	u32 port;

	if (!fadt || fadt->bytes < FADT_PM_TIMER + 4)
		return 0;
	port = get_u32(fadt->data + FADT_PM_TIMER);
	return port <= UINT16_MAX ? (u16)port : 0;
}

/* struct room - the rest of the area that tables are copied to */
struct room {
	u8 *to;
	u64 to_phys;
	u32 bytes;
	u32 used;
};

/* Allocate @bytes zeroed bytes, 64-aligned for the FACS; 0 = full. */
static u32 take(struct room *room, u32 bytes)
{
	u32 at = (room->used + 63) & ~63u;

	if (at > room->bytes || bytes > room->bytes - at)
		return 0;
	memset(room->to + at, 0, bytes);
	room->used = at + bytes;
	return at;
}

/* Copies may be above 4 GiB: an old FADT is extended by 64-bit pointers. */
static u32 copied_bytes(const struct acpi_table *table)
{
	if (table->signature == SIG_FADT && table->bytes < FADT_X_END)
		return FADT_X_END;
	return table->bytes;
}

static void point_fadt(u8 *fadt, u32 bytes, u64 dsdt, u64 facs)
{
	put_u32(fadt + HEADER_LENGTH, bytes);
	put_u32(fadt + FADT_DSDT, 0);
	put_u32(fadt + FADT_FACS, 0);
	put_u64(fadt + FADT_X_DSDT, dsdt);
	put_u64(fadt + FADT_X_FACS, facs);
	set_checksum(fadt, bytes, HEADER_CHECKSUM);
}

static void write_root(u8 *rsdp, u64 xsdt_phys, u8 *xsdt, u32 xsdt_bytes)
{
	memcpy(rsdp, "RSD PTR ", 8);
	memcpy(rsdp + 9, "REMANE", 6);
	rsdp[RSDP_REVISION] = 2;
	put_u32(rsdp + RSDP_LENGTH, RSDP_BYTES);
	put_u64(rsdp + RSDP_XSDT, xsdt_phys);
	set_checksum(rsdp, RSDP_BYTES_V1, RSDP_CHECKSUM);
	set_checksum(rsdp, RSDP_BYTES, RSDP_CHECKSUM_EXTENDED);

	put_u32(xsdt, SIG_XSDT);
	put_u32(xsdt + HEADER_LENGTH, xsdt_bytes);
	xsdt[8] = 1;
	memcpy(xsdt + 10, "REMANEREMANENCE", 14);
	set_checksum(xsdt, xsdt_bytes, HEADER_CHECKSUM);
}

u64 acpi_copy(const struct acpi_tables *tables, u8 *to, u64 to_phys,
	      u32 to_bytes)
{
	struct room room = { .to = to,
			     .to_phys = to_phys,
			     .bytes = to_bytes,
			     .used = RSDP_BYTES };
	u32 xsdt_bytes = ACPI_HEADER_BYTES + 8 * tables->count;
	u64 dsdt = 0, facs = 0;
	u32 fadt_at = 0, fadt_bytes = 0, pointers = 0;
	u32 xsdt_at;

	if (to_bytes < RSDP_BYTES)
		return 0;
	memset(to, 0, RSDP_BYTES);
	xsdt_at = take(&room, xsdt_bytes);
	if (!xsdt_at)
		return 0;
	for (u32 i = 0; i < tables->count; i++) {
		const struct acpi_table *table = &tables->table[i];
		u32 bytes = copied_bytes(table);
		u32 at = take(&room, bytes);

		if (!at)
			return 0;
		memcpy(to + at, table->data, table->bytes);
		if (table->signature == SIG_DSDT) {
			dsdt = to_phys + at;
			continue;
		}
		if (table->signature == SIG_FACS) {
			facs = to_phys + at;
			continue;
		}
		if (table->signature == SIG_FADT && !fadt_at) {
			fadt_at = at;
			fadt_bytes = bytes;
		}
		put_u64(to + xsdt_at + ACPI_HEADER_BYTES + 8 * pointers++,
			to_phys + at);
	}
	if (fadt_at)
		point_fadt(to + fadt_at, fadt_bytes, dsdt, facs);
	write_root(to, to_phys + xsdt_at, to + xsdt_at,
		   ACPI_HEADER_BYTES + 8 * pointers);
	return to_phys;
}
