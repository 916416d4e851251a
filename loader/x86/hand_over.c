/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a kernel for x86 is told: boot_params, the ACPI tables as copies in NVRAM, and by
 * a node of setup_data where the block is.
 */
#include "../main/hand_over.h"

#include "boot_map.h"
#include "../hw/console.h"

/* What the kernel gets, in the loader's work area; its command line comes after it. */
#define WORK_PARAMS REM_WORK_OFFSET
#define WORK_HANDOVER (REM_WORK_OFFSET + 0x1000)

_Noreturn void linux_enter_64(u64 entry, u64 params_phys);

static u64 copy_acpi(const struct machine *machine)
{
	u64 rsdp = acpi_copy(&machine->acpi, block_at(machine, REM_ACPI_OFFSET),
			     machine->region_phys + REM_ACPI_OFFSET,
			     REM_ACPI_BYTES);

	if (!rsdp)
		die("the ACPI tables do not fit %u bytes", REM_ACPI_BYTES);
	return rsdp;
}

static u64 write_handover(const struct machine *machine)
{
	struct rem_handover handover = {
		.magic = REM_HANDOVER_MAGIC,
		.version = REM_VERSION,
		.region_phys = machine->region_phys,
		.region_bytes = machine->region_bytes,
	};

	linux_setup_data(block_at(machine, WORK_HANDOVER), REM_SETUP_DATA,
			 &handover, sizeof(handover));
	return machine->region_phys + WORK_HANDOVER;
}

void hand_over(const struct machine *machine, struct memtype memtype,
	       u64 registry_bytes, struct linux_boot *boot)
{
	struct map map;

	boot->rsdp_phys = copy_acpi(machine);
	boot_map(machine, memtype, registry_bytes, &map);
	boot->map = &map;
	boot->setup_data_phys = write_handover(machine);
	linux_boot_params(block_at(machine, WORK_PARAMS), machine->kernel_head,
			  boot);
}

_Noreturn void kernel_enter(const struct machine *machine, u64 load)
{
	linux_enter_64(load + LINUX_ENTRY_64,
		       machine->region_phys + WORK_PARAMS);
}
