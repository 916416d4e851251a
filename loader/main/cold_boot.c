/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cold boot: the kernel and its initrd are loaded into NVRAM, or into DRAM with
 * memtype=dram; its command line, and what else it is told, are in the block.
 */
#include "cold_boot.h"

#include "../hw/console.h"
#include "../hw/io.h"
#include "hand_over.h"
#include "registry.h"
#include "stamp.h"

/* In the loader's work area. */
#define WORK_CMDLINE (REM_WORK_OFFSET + 0x2000)

static u64 load_kernel(const struct machine *machine, const struct place *place)
{
	const struct bz_image *kernel = &machine->kernel;
	u64 load;

	if (!align_up(place->base, kernel->align_bytes, &load) ||
	    !range_inside(load, kernel->init_bytes, place->base, place->bytes))
		die("the kernel needs %u bytes, too much for %s of %lu",
		    kernel->init_bytes, place->kind, place->bytes);
	if (!machine->front->read(FRONT_KERNEL, kernel->setup_bytes,
				  at_phys(load), kernel->kernel_bytes))
		die("reading the kernel failed");
	return load;
}

/* At the end of the place, away from the address that the kernel unpacks to. */
static void load_initrd(const struct machine *machine,
			const struct place *place, u64 kernel_end,
			struct linux_boot *boot)
{
	u64 end = place->base + place->bytes;
	u32 bytes;

	if (!machine->front->size(FRONT_INITRD, &bytes) || !bytes)
		return;
	if (bytes > end - kernel_end)
		die("the initrd of %u bytes does not fit %s", bytes,
		    place->kind);
	boot->initrd_phys = (end - bytes) & ~(u64)(GO_PAGE_BYTES - 1);
	boot->initrd_bytes = bytes;
	if (boot->initrd_phys < kernel_end)
		die("the initrd of %u bytes does not fit %s", bytes,
		    place->kind);
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
	/* A file written by an editor or by echo ends in a newline. */
	while (bytes && (to[bytes - 1] == '\n' || to[bytes - 1] == '\r'))
		to[--bytes] = 0;
	boot->cmdline_phys = machine->region_phys + WORK_CMDLINE;
}

_Noreturn void cold_boot(const struct machine *machine, struct desc *desc,
			 void (*finish)(void *context), void *context)
{
	struct linux_boot boot = { .screen = machine->front->screen };
	struct memtype memtype;
	struct place place;
	u64 load, registry_bytes;

	load_cmdline(machine, &boot);
	memtype = memtype_read(block_at(machine, WORK_CMDLINE));
	stamp_ranges(machine, memtype, desc);
	registry_bytes =
		registry_save(machine, block_at(machine, WORK_CMDLINE));
	place = boot_place(machine, memtype, registry_bytes);
	load = load_kernel(machine, &place);
	load_initrd(machine, &place, load + machine->kernel.init_bytes, &boot);
	hand_over(machine, memtype, registry_bytes, &boot);
	finish(context);
	kernel_enter(machine, load);
}
