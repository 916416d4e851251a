/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A machine of RISC-V: its device tree, its harts, the kernel's file. */
#include "../main/parts.h"

#include "../core/build_id.h"
#include "../core/riscv_image.h"
#include "../hw/console.h"
#include "../hw/tpm.h"
#include "board.h"
#include "sbi.h"

#define CHUNK_BYTES 0x10000u

extern u64 hart_id;

/* The entry code has the exceptions, and the front end has prepared checksums. */
void parts_open(void)
{
}

void tables_find(struct machine *machine)
{
	(void)machine;
}

const char *kernel_parse(struct machine *machine)
{
	return riscv_image_parse(machine->kernel_head,
				 machine->kernel_file_bytes, &machine->kernel);
}

static void read_kernel(const struct machine *machine, u32 at, void *to,
			u32 bytes)
{
	if (!machine->front->read(FRONT_KERNEL, at, to, bytes))
		die("reading the kernel failed");
}

static u64 chunk[CHUNK_BYTES / 8];

/* The part of the file at @at, and how much it is. */
static u32 read_part(const struct machine *machine, u32 at)
{
	u32 left = machine->kernel_file_bytes - at;
	u32 bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;

	read_kernel(machine, at, chunk, bytes);
	return bytes;
}

/* Where the last boot found them; false if there is another kernel now. */
static bool find_again(const struct machine *machine, struct build_ids *ids)
{
	const u8 *desc = block_at(machine, REM_DESC_OFFSET);
	u32 at[BUILD_IDS_MAX];
	u32 count = build_ids_hint(desc, at);

	for (u32 i = 0; i < count; i++) {
		u8 note[BUILD_NOTE_BYTES];

		if (machine->kernel_file_bytes < BUILD_NOTE_BYTES ||
		    at[i] > machine->kernel_file_bytes - BUILD_NOTE_BYTES)
			return false;
		read_kernel(machine, at[i], note, sizeof(note));
		if (!build_note_is(note))
			return false;
		build_ids_add(ids, at[i], note);
	}
	return count;
}

static void find_all(const struct machine *machine, struct build_ids *ids)
{
	const u32 step = CHUNK_BYTES - (BUILD_NOTE_BYTES - 4);

	*ids = (struct build_ids){ 0 };
	for (u32 at = 0; at < machine->kernel_file_bytes; at += step)
		build_ids_scan(ids, at, (const u8 *)chunk,
			       read_part(machine, at));
}

/* The file has no checksum of its own: by its build ids, or without any by all of it. */
void kernel_identify(const struct machine *machine, u64 value[5])
{
	static struct build_ids ids;
	static u64 sum;

	/* A hold looks each second. */
	if (!sum) {
		if (!find_again(machine, &ids))
			find_all(machine, &ids);
		if (!ids.count || ids.more) {
			ids.count = 0;
			sum = RISCV_SUM_BEGIN;
			for (u32 at = 0; at < machine->kernel_file_bytes;
			     at += CHUNK_BYTES)
				sum = riscv_image_sum(sum, (const u8 *)chunk,
						      read_part(machine, at));
		} else {
			sum = riscv_image_sum(RISCV_SUM_BEGIN, ids.id[0],
					      ids.count * sizeof(ids.id[0]));
		}
	}
	value[0] = sum;
	build_ids_pack(&ids, value + 3);
}

void describe_cpus(const struct machine *machine, struct desc *desc)
{
	u32 id[BOARD_HARTS_MAX];
	const u32 firmware[] = { SBI_BASE_VENDOR, SBI_BASE_ARCHITECTURE,
				 SBI_BASE_IMPLEMENTATION, SBI_BASE_FIRMWARE,
				 SBI_BASE_FIRMWARE_VERSION };
	u64 value[GO_COUNT(firmware)];

	(void)machine;
	for (u32 i = 0; i < board.harts; i++)
		id[i] = board.hart[i].id;
	desc_add_cpus(desc, id, board.harts, (u32)hart_id);
	for (u32 i = 0; i < GO_COUNT(firmware); i++)
		value[i] = (u64)sbi_call(SBI_BASE, firmware[i], 0, 0, 0).value;
	desc_add(desc, REM_DESC_ISA, 0xffffffffu, value, GO_COUNT(value));
	for (u32 i = 0; i < board.harts; i++) {
		value[0] = board.hart[i].isa_crc;
		desc_add(desc, REM_DESC_ISA, board.hart[i].id, value, 1);
	}
}

void describe_firmware(const struct machine *machine, struct desc *desc)
{
	u64 value[2] = { fdt_crc(&board.fdt), board.ticks_hz };

	(void)machine;
	desc_add(desc, REM_DESC_TREE, 0, value, GO_COUNT(value));
}

/* None is described by a device tree that this loader reads. */
enum tpm_place tpm_find(const struct acpi_tables *acpi, const struct map *map,
			struct tpm *ret_tpm)
{
	(void)acpi;
	(void)map;
	(void)ret_tpm;
	return TPM_ABSENT;
}

u64 tpm_waited_ticks(void)
{
	return 0;
}
