/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "registry.h"

#include "../core/registry.h"
#include "../hw/console.h"
#include "../hw/flush.h"
#include "../hw/io.h"

/* Copied again after a power failure here: its memory is as it was until the kernel. */
static void save(const struct registry *registry, u32 page,
		 struct rem_registry_page *entry)
{
	void *slot = at_phys(registry_slot_phys(registry, page));

	memcpy(slot, at_phys(entry->phys), REM_REGISTRY_PAGE_BYTES);
	flush(slot, REM_REGISTRY_PAGE_BYTES);
	*(volatile u64 *)&entry->saved = REM_REGISTRY_SAVED;
	flush(&entry->saved, sizeof(entry->saved));
}

u64 registry_save(const struct machine *machine, const u8 *cmdline)
{
	u64 asked = registry_asked(cmdline, machine->region_bytes);
	u64 end = machine->region_phys + machine->region_bytes;
	struct registry registry;
	u32 saved = 0;

	if (!registry_judge(at_phys(end - REM_REGISTRY_PAGE_BYTES),
			    machine->region_phys, machine->region_bytes,
			    &registry))
		return asked;
	for (u32 page = 0; page < registry.pages; page++) {
		struct rem_registry_page *entry =
			at_phys(registry_entry_phys(&registry, page));

		if (!registry_page_waits(entry, &registry, &machine->nvram,
					 machine->region_phys))
			continue;
		save(&registry, page, entry);
		saved++;
	}
	if (saved)
		print("kept %u registered pages", saved);
	return asked > registry.bytes ? asked : registry.bytes;
}
