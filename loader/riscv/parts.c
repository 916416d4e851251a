/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A machine of RISC-V: its device tree, its harts, the kernel's file. */
#include "../main/parts.h"

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

/* The file has no checksum of its own. */
u64 kernel_sum(const struct machine *machine)
{
	static u64 chunk[CHUNK_BYTES / 8];
	static u64 known;
	u64 sum = RISCV_SUM_BEGIN;

	/* A hold looks each second. */
	if (known)
		return known;
	for (u32 at = 0; at < machine->kernel_file_bytes; at += CHUNK_BYTES) {
		u32 left = machine->kernel_file_bytes - at;
		u32 bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;

		if (!machine->front->read(FRONT_KERNEL, at, chunk, bytes))
			die("reading the kernel failed");
		sum = riscv_image_sum(sum, (const u8 *)chunk, bytes);
	}
	known = sum;
	return known;
}

void describe_cpus(const struct machine *machine, struct desc *desc)
{
	u32 id[BOARD_HARTS_MAX];
	const u32 firmware[] = { SBI_BASE_VENDOR, SBI_BASE_ARCHITECTURE,
				 SBI_BASE_IMPLEMENTATION };
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
