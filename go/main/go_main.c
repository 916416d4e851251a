/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../core/crc32c.h"
#include "../hw/console.h"
#include "../hw/io.h"
#include "../hw/paging.h"
#include "cold_boot.h"
static struct machine machine;
static void finish(void *c) { (void)c; }
_Noreturn void go_main(const struct front *front)
{
	struct go_memory low = { .base = 0, .phys = 0, .bytes = 1ull << 32 };
	const char *why;
	crc32c_init(read_cpuid(1, 0).ecx & 1u << 20);
	machine.front = front;
	if (!acpi_list(&low, front->rsdp_phys, &machine.acpi)) die("no ACPI");
	machine.nvram_count = acpi_nvram(&machine.acpi, machine.nvram, MACHINE_NVRAM_MAX);
	if (!machine.nvram_count) die("no NVRAM");
	machine.region_phys = machine.nvram[0].base;
	machine.region_bytes = machine.nvram[0].bytes;
	if (!paging_map(machine.region_phys, machine.region_bytes)) die("map");
	if (!front->size(FRONT_KERNEL, &machine.kernel_file_bytes)) die("no kernel");
	if (!front->read(FRONT_KERNEL, 0, machine.kernel_head, BZ_HEAD_BYTES)) die("read");
	why = bz_parse(machine.kernel_head, machine.kernel_file_bytes, &machine.kernel);
	if (why) die("%s", why);
	say("cold 0 provisional, NVRAM %lx %lu bytes", machine.region_phys, machine.region_bytes);
	cold_boot(&machine, finish, NULL);
}
