/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The registry (format/rem_registry.h): what a program was told to be safe and no
 * disk has yet. All of it is untrusted.
 */
#ifndef LOADER_REGISTRY_H
#define LOADER_REGISTRY_H

#include "../../format/rem_registry.h"
#include "ranges.h"

/* struct registry - where its parts are; @bytes 0: there is none */
struct registry {
	u64 base;
	u64 bytes;
	u32 files;
	u32 pages;
};

/*
 * The registry at the end of [region_phys, region_phys + region_bytes), whose last
 * page is at @head. False if there is none, or if its parts do not fit: then nothing
 * was acknowledged by it.
 */
bool registry_judge(const u8 *head, u64 region_phys, u64 region_bytes,
		    struct registry *ret_registry);

/* Where entry and slot of a page are. */
u64 registry_entry_phys(const struct registry *registry, u32 page);
u64 registry_slot_phys(const struct registry *registry, u32 page);

/*
 * Whether the loader is to copy a page: it is registered, its checksum is right, it
 * is not saved yet, and lies in NVRAM outside of block and registry.
 */
bool registry_page_waits(const struct rem_registry_page *page,
			 const struct registry *registry,
			 const struct ranges *nvram, u64 block_phys);

/*
 * Bytes that remanence.persist=SIZE[KMG] asks for, in whole pages; the last of
 * several counts. 0 if it is absent, invalid, or more than half of @region_bytes.
 */
u64 registry_asked(const u8 *cmdline, u64 region_bytes);

#endif /* LOADER_REGISTRY_H */
