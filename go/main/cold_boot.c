/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A boot from nothing: the kernel, its initrd and what they are told go into
 * NVRAM, and the memory map says that nothing else is memory.
 */
#include "cold_boot.h"

#include "../hw/console.h"
#include "../hw/io.h"

/*
 * The DRAM that stays usable: Linux starts other CPUs in real mode, below
 * 1 MiB. 6.12's trampoline takes 7 pages (reserve_real_mode(), which allocates
 * between 64 KiB and 640 KiB); before it, the boot stub borrows and gives back
 * the last 2 pages of the same range (find_trampoline_placement()). One page
 * to spare for a kernel whose trampoline is a little larger.
 */
#define LOW_DRAM_PHYS 0x90000u
#define LOW_DRAM_BYTES 0x8000u

/* What the kernel is told, in the loader's work area. */
#define WORK_PARAMS REM_WORK_OFFSET
#define WORK_HANDOVER (REM_WORK_OFFSET + 0x1000)
#define WORK_CMDLINE (REM_WORK_OFFSET + 0x2000)

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

static void paint(struct map *map, u64 base, u64 bytes, u32 type)
{
	if (!map_paint(map, base, bytes, type))
		die("no room in the memory map for %lx, %lu bytes", base,
		    bytes);
}

/* Firmware's map with DRAM hidden, NVRAM as memory and our block set apart. */
static void make_map(const struct machine *machine, struct map *map)
{
	const struct map *firmware = &machine->front->map;

	*map = *firmware;
	for (u32 i = 0; i < firmware->count; i++)
		if (firmware->entry[i].type == MAP_RAM)
			paint(map, firmware->entry[i].base,
			      firmware->entry[i].bytes, MAP_RESERVED);
	if (map_type_at(firmware, LOW_DRAM_PHYS) == MAP_RAM &&
	    map_type_at(firmware, LOW_DRAM_PHYS + LOW_DRAM_BYTES - 1) ==
		    MAP_RAM)
		paint(map, LOW_DRAM_PHYS, LOW_DRAM_BYTES, MAP_RAM);
	for (u32 i = 0; i < machine->nvram_count; i++)
		paint(map, machine->nvram[i].base, machine->nvram[i].bytes,
		      MAP_PMEM);
	paint(map, machine->region_phys, machine->region_bytes, MAP_RAM);
	paint(map, machine->region_phys, REM_BLOCK_BYTES, MAP_RESERVED);
	paint(map, machine->region_phys + REM_ACPI_OFFSET, REM_ACPI_BYTES,
	      MAP_ACPI);
}

static u64 load_kernel(const struct machine *machine)
{
	const struct bz_image *kernel = &machine->kernel;
	u64 load;

	if (!align_up(machine->region_phys + REM_BLOCK_BYTES,
		      kernel->align_bytes, &load) ||
	    !range_inside(load, kernel->init_bytes, machine->region_phys,
			  machine->region_bytes))
		die("the kernel needs %u bytes, too much for NVRAM of %lu",
		    kernel->init_bytes, machine->region_bytes);
	if (!machine->front->read(FRONT_KERNEL, kernel->setup_bytes,
				  at_phys(load), kernel->kernel_bytes))
		die("reading the kernel failed");
	return load;
}

/* At the end of the region, away from where the kernel unpacks itself. */
static void load_initrd(const struct machine *machine, u64 kernel_end,
			struct linux_boot *boot)
{
	u64 end = machine->region_phys + machine->region_bytes;
	u32 bytes;

	if (!machine->front->size(FRONT_INITRD, &bytes) || !bytes)
		return;
	if (bytes > end - kernel_end)
		die("the initrd of %u bytes does not fit NVRAM", bytes);
	boot->initrd_phys = (end - bytes) & ~(u64)(GO_PAGE_BYTES - 1);
	boot->initrd_bytes = bytes;
	if (boot->initrd_phys < kernel_end)
		die("the initrd of %u bytes does not fit NVRAM", bytes);
	if (!machine->front->read(FRONT_INITRD, 0, at_phys(boot->initrd_phys),
				  bytes))
		die("reading the initrd failed");
}

static void load_cmdline(const struct machine *machine, struct linux_boot *boot)
{
	u8 *to = block_at(machine, WORK_CMDLINE);
	u32 max = machine->kernel.cmdline_bytes_max;
	u32 bytes;

	if (max > LINUX_CMDLINE_BYTES_MAX)
		max = LINUX_CMDLINE_BYTES_MAX;
	if (!machine->front->size(FRONT_CMDLINE, &bytes))
		bytes = 0;
	if (bytes > max)
		die("the command line has %u bytes, more than %u", bytes, max);
	if (bytes && !machine->front->read(FRONT_CMDLINE, 0, to, bytes))
		die("reading the command line failed");
	to[bytes] = 0;
	/* A file made by an editor or by echo ends in a newline. */
	while (bytes && (to[bytes - 1] == '\n' || to[bytes - 1] == '\r'))
		to[--bytes] = 0;
	boot->cmdline_phys = machine->region_phys + WORK_CMDLINE;
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

_Noreturn void cold_boot(const struct machine *machine,
			 void (*finish)(void *context), void *context)
{
	struct linux_boot boot = { .initrd_bytes = 0 };
	struct map map;
	u64 load;

	boot.rsdp_phys = copy_acpi(machine);
	make_map(machine, &map);
	boot.map = &map;
	load = load_kernel(machine);
	load_initrd(machine, load + machine->kernel.init_bytes, &boot);
	load_cmdline(machine, &boot);
	boot.setup_data_phys = write_handover(machine);
	linux_boot_params(block_at(machine, WORK_PARAMS), machine->kernel_head,
			  &boot);
	finish(context);
	linux_enter_64(load + LINUX_ENTRY_64,
		       machine->region_phys + WORK_PARAMS);
}
