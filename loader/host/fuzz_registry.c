/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A registry of any content. An input is the head's counts and sizes, which get a
 * right checksum, then entries, the first byte of each of which says whether it gets
 * one, too.
 *
 * Oracle: all parts of a registry that is found lie in the region, behind the block,
 * and apart from each other; a page that is copied lies in NVRAM, outside of both.
 */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "../core/registry.h"

#define REGION 0x100000000ull
#define REGION_BYTES 0x4000000ull
#define SECOND 0x200000000ull
#define SECOND_BYTES 0x100000ull

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

static void check(bool right)
{
	if (!right)
		abort();
}

static void check_parts(const struct registry *registry)
{
	u64 tables = registry_entry_phys(registry, registry->pages);
	u64 end = registry->base + registry->bytes;

	check(end == REGION + REGION_BYTES);
	check(registry->base >= REGION + REM_BLOCK_BYTES);
	check(registry_entry_phys(registry, 0) > registry->base);
	check(tables <= registry_slot_phys(registry, 0));
	check(registry_slot_phys(registry, registry->pages - 1) +
		      2 * REM_REGISTRY_PAGE_BYTES ==
	      end);
}

static void check_page(const struct rem_registry_page *page,
		       const struct registry *registry)
{
	static const struct ranges nvram = {
		.count = 2,
		.range = { { REGION, REGION_BYTES }, { SECOND, SECOND_BYTES } },
	};
	u64 last = page->phys + REM_REGISTRY_PAGE_BYTES - 1;

	if (!registry_page_waits(page, registry, &nvram, REGION))
		return;
	check(page->id && page->saved != REM_REGISTRY_SAVED);
	check((page->phys >= REGION + REM_BLOCK_BYTES &&
	       last < registry->base) ||
	      (page->phys >= SECOND && last < SECOND + SECOND_BYTES));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct rem_registry head = { 0 };
	struct registry registry;
	struct rem_registry_page page;

	crc32c_init(true);
	if (bytes < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	if (data[sizeof(head) - 1] & 1) {
		head.magic = REM_REGISTRY_MAGIC;
		head.version = REM_REGISTRY_VERSION;
	}
	head.crc = crc32c(&head, offsetof(struct rem_registry, crc));
	if (!registry_judge((const u8 *)&head, REGION, REGION_BYTES, &registry))
		return 0;
	check_parts(&registry);
	for (size_t at = sizeof(head); at + 1 + sizeof(page) <= bytes;
	     at += 1 + sizeof(page)) {
		memcpy(&page, data + at + 1, sizeof(page));
		if (data[at] & 1)
			page.crc = crc32c(
				&page, offsetof(struct rem_registry_page, crc));
		check_page(&page, &registry);
	}
	return 0;
}
