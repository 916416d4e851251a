/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The order of the loader, for every front end:
 *
 *   find NVRAM -> restore it -> describe the machine -> check the record
 *     -> the machine differs, and the image's policy is to hold it: look again
 *     -> resume: wait for charge, consume, enter the image
 *     -> cold boot: consume what could be entered, load the kernel, enter it
 *
 * Nothing outside the record block is written before the consumed word is
 * durable (invariants 1 and 2).
 */
#include "../../format/rem_reason_name.h"
#include "../core/crc32c.h"
#include "../core/nvdimm.h"
#include "../core/record.h"
#include "../hw/console.h"
#include "../hw/flush.h"
#include "../hw/io.h"
#include "../hw/nvdimm.h"
#include "../hw/paging.h"
#include "../hw/power.h"
#include "cold_boot.h"
#include "describe.h"
#include "enter.h"
#include "hold.h"
#include "parts.h"
#include "stamp.h"
#include "trust.h"

static struct machine machine;
static struct desc desc;
static struct decision decision;

/* Firmware has written there at this boot, before any of its users could know. */
static bool leave_to_firmware(struct ranges *nvram)
{
	const struct ranges whole = *nvram;
	bool all = ranges_remove_map(nvram, &machine.front->firmware);

	if (memcmp(&whole, nvram, sizeof(whole)))
		print("firmware uses a part of NVRAM: no image lies there");
	return all;
}

static void find_nvram(void)
{
	struct ranges *nvram = &machine.nvram;
	bool all;

	all = acpi_nvram(&machine.acpi, nvram);
	all &= ranges_add_map(nvram, &machine.front->map);
	machine.non_volatile = *nvram;
	all &= leave_to_firmware(nvram);
	machine.nvram_more = !all;
	if (!nvram->count)
		die("no NVRAM: neither the NFIT nor the map has a persistent range");
	if (!ranges_region(nvram, 0))
		die("no range of NVRAM is larger than %u bytes and aligned",
		    REM_BLOCK_BYTES);
	for (u32 i = 0; i < nvram->count; i++)
		if (!paging_map(nvram->range[i].base, nvram->range[i].bytes))
			die("NVRAM at %lx, %lu bytes, cannot be mapped",
			    nvram->range[i].base, nvram->range[i].bytes);
}

/* When NVRAM has its content. */
static void find_block(void)
{
	const struct ranges *nvram = &machine.nvram;
	const struct range *region;
	u32 open = 0;

	for (u32 i = 0; i < nvram->count; i++)
		if (range_has_room(&nvram->range[i]) &&
		    rem_block_open(at_phys(nvram->range[i].base)))
			open |= 1u << i;
	region = ranges_region(nvram, open);
	machine.region_phys = region->base;
	machine.region_bytes = region->bytes;
}

static void read_kernel_head(void)
{
	const char *wrong;

	if (!machine.front->size(FRONT_KERNEL, &machine.kernel_file_bytes))
		die("no kernel: the front end has none");
	if (machine.kernel_file_bytes < BZ_HEAD_BYTES ||
	    !machine.front->read(FRONT_KERNEL, 0, machine.kernel_head,
				 BZ_HEAD_BYTES))
		die("the kernel file cannot be read");
	wrong = kernel_parse(&machine);
	if (wrong)
		die("%s", wrong);
}

/* The last difference because of which the image was held; its reason 0 = none. */
static struct decision held;

static void store_note(u32 reason)
{
	bool resumes = reason == REM_BOOT_RESUME;
	const struct decision *differs = resumes ? &held : &decision;
	struct rem_boot_note note = {
		.magic = REM_NOTE_MAGIC,
		.version = REM_VERSION,
		.reason = reason,
		.sequence = decision.sequence,
		.slot = decision.slot,
		.expected = differs->expected,
		.found = differs->found,
		.entry_tsc = machine.front->entry_tsc,
		.ready_tsc = machine.ready_tsc,
		.leave_tsc = read_ticks(),
		.charge = machine.charge,
		.nvdimm = machine.nvdimm,
		.held = held.reason,
	};

	note.crc = crc32c(&note, offsetof(struct rem_boot_note, crc));
	memcpy(block_at(&machine, REM_NOTE_OFFSET), &note, sizeof(note));
}

/* The last step of a cold boot: what it reports, the next one does not. */
static void write_note(void *unused)
{
	(void)unused;
	store_note(decision.reason);
	flush(block_at(&machine, REM_NOTE_OFFSET),
	      sizeof(struct rem_boot_note));
	report_events(&machine);
}

static void print_cold(void)
{
	print("cold %u %s sequence %u slot %u", decision.reason,
	      rem_reason_name(decision.reason), decision.sequence,
	      decision.slot);
	if (decision.reason == REM_COLD_BODY_FIELD)
		print("%s", decision.wrong);
	print_difference(&decision);
}

/* Before anything of an image is executed: it must not be restored again. */
static bool erase_flash(void)
{
	u8 status;

	if (!machine.nvdimm)
		return true;
	status = nvdimm_erase(acpi_timer_port(&machine.acpi));
	if (status)
		machine.nvdimm = status;
	return status;
}

/* Returns only if the image could not be consumed in memory, flash or TPM. */
static void resume(void)
{
	u32 sequence = decision.sequence;
	u64 verified_tsc = read_ticks();

	machine.charge = power_wait(acpi_timer_port(&machine.acpi));
	loader_event(&machine, sequence, 0, REM_EVENT_LOADER_BEGIN,
		     machine.front->entry_tsc, 0);
	loader_event(&machine, sequence, 1, REM_EVENT_LOADER_MACHINE,
		     machine.ready_tsc, desc.count);
	loader_event(&machine, sequence, 2, REM_EVENT_LOADER_VERIFIED,
		     verified_tsc, decision.reason);
	trust_leave(&machine, decision.body.key_phys);
	print("resume sequence %u", sequence);
	if (!consume(&machine, sequence)) {
		decision.reason = REM_COLD_CONSUMED_INVALID;
		return;
	}
	if (!erase_flash()) {
		decision.reason = REM_COLD_NVDIMM_FAILED;
		return;
	}
	if (!trust_count(&machine)) {
		decision.reason = REM_COLD_TPM_DIFFERS;
		return;
	}
	loader_event(&machine, sequence, 3, REM_EVENT_LOADER_CONSUMED,
		     read_ticks(), sequence);
	store_note(REM_BOOT_RESUME);
	image_enter(decision.body.entry_phys,
		    machine.region_phys + REM_BODY_OFFSET +
			    decision.slot * REM_BODY_STRIDE_BYTES,
		    machine.region_phys + REM_NOTE_OFFSET);
}

/* If NVRAM has lost its content, there is no record, or no image. */
static void check_nvdimm(void)
{
	u32 reason = machine.nvdimm ? nvdimm_reason((u8)machine.nvdimm) : 0;

	if (!reason && decision.reason == REM_BOOT_RESUME &&
	    acpi_nvram_lost(&machine.acpi))
		reason = REM_COLD_NVDIMM_FAILED;
	if (!reason || machine.front->cold_requested)
		return;
	decision.reason = reason;
	decision.expected = decision.found = (struct rem_desc_entry){ 0 };
}

/* Describe the machine, and decide. Changes nothing outside the block. */
static void look(void)
{
	u32 given_up;

	/* A hold looks each second, and prints what has changed. */
	describe(&machine, &desc, !held.reason);
	desc_write(&desc, block_at(&machine, REM_DESC_OFFSET));
	machine.ready_tsc = read_ticks();
	rem_decide(block_at(&machine, 0), machine.region_phys,
		   machine.region_bytes, &desc, machine.front->cold_requested,
		   &decision);
	trust_judge(&machine, &decision);
	given_up = rem_go_given_up(block_at(&machine, 0), &decision);
	if (given_up)
		decision.reason = given_up;
	check_nvdimm();
}

/* For readers of NVRAM: there is no decision yet, and why. */
static void note_hold(void)
{
	held = decision;
	store_note(REM_BOOT_HOLD);
}

_Noreturn void loader_main(const struct front *front)
{
	const struct hold_steps steps = { look, note_hold };

	parts_open();
	machine.front = front;
	machine.charge = power_open();
	tables_find(&machine);
	find_nvram();
	machine.nvdimm = nvdimm_restore(acpi_timer_port(&machine.acpi));
	find_block();
	read_kernel_head();
	stamp_region(&machine);
	trust_open(&machine);
	look();
	if (rem_holds(&decision))
		hold(&decision, acpi_timer_port(&machine.acpi), &steps);
	if (decision.reason == REM_BOOT_RESUME)
		resume();
	machine.charge = power_poll();
	print_cold();
	if (!close_images(&machine, &decision))
		die("NVRAM does not contain what was stored in it");
	if (!erase_flash())
		die("the NVDIMM has not erased its flash");
	trust_leave(&machine, 0);
	(void)trust_count(&machine);
	cold_boot(&machine, &desc, write_note, NULL);
}
