/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "registry.h"

#include "cmdline.h"
#include "crc32c.h"

#define PARAMETER "remanence.persist="
#define FILE_BYTES (REM_REGISTRY_COPIES * sizeof(struct rem_registry_file))

/* Cannot overflow: the counts have limits. */
static u64 parts_bytes(u32 files, u32 pages)
{
	u64 tables = files * (u64)FILE_BYTES +
		     pages * (u64)sizeof(struct rem_registry_page);

	return tables + (pages + 1ull) * REM_REGISTRY_PAGE_BYTES;
}

bool registry_judge(const u8 *head, u64 region_phys, u64 region_bytes,
		    struct registry *ret_registry)
{
	struct rem_registry seen;

	*ret_registry = (struct registry){ 0 };
	memcpy(&seen, head, sizeof(seen));
	if (seen.magic != REM_REGISTRY_MAGIC ||
	    seen.version != REM_REGISTRY_VERSION ||
	    seen.crc != crc32c(&seen, offsetof(struct rem_registry, crc)))
		return false;
	if (!seen.files || seen.files > REM_REGISTRY_FILES_MAX || !seen.pages ||
	    seen.pages > REM_REGISTRY_PAGES_MAX)
		return false;
	if (seen.bytes % REM_REGISTRY_PAGE_BYTES ||
	    region_bytes < REM_BLOCK_BYTES ||
	    seen.bytes > region_bytes - REM_BLOCK_BYTES ||
	    parts_bytes(seen.files, seen.pages) > seen.bytes)
		return false;
	*ret_registry = (struct registry){
		.base = region_phys + region_bytes - seen.bytes,
		.bytes = seen.bytes,
		.files = seen.files,
		.pages = seen.pages,
	};
	return true;
}

u64 registry_entry_phys(const struct registry *registry, u32 page)
{
	return registry->base + registry->files * (u64)FILE_BYTES +
	       page * (u64)sizeof(struct rem_registry_page);
}

u64 registry_slot_phys(const struct registry *registry, u32 page)
{
	u64 behind = registry->pages - page + 1ull;

	return registry->base + registry->bytes -
	       behind * REM_REGISTRY_PAGE_BYTES;
}

static bool in_nvram(const struct ranges *nvram, u64 phys)
{
	for (u32 i = 0; i < nvram->count; i++)
		if (range_inside(phys, REM_REGISTRY_PAGE_BYTES,
				 nvram->range[i].base, nvram->range[i].bytes))
			return true;
	return false;
}

bool registry_page_waits(const struct rem_registry_page *page,
			 const struct registry *registry,
			 const struct ranges *nvram, u64 block_phys)
{
	if (!page->id || page->saved == REM_REGISTRY_SAVED ||
	    page->crc != crc32c(page, offsetof(struct rem_registry_page, crc)))
		return false;
	return !(page->phys % REM_REGISTRY_PAGE_BYTES) &&
	       in_nvram(nvram, page->phys) &&
	       !range_overlaps(page->phys, REM_REGISTRY_PAGE_BYTES, block_phys,
			       REM_BLOCK_BYTES) &&
	       !range_overlaps(page->phys, REM_REGISTRY_PAGE_BYTES,
			       registry->base, registry->bytes);
}

/* A size at @at, which ends the word; 0 if it is none. */
static u64 read_size(const u8 *at)
{
	static const char units[] = "KMG";
	u64 value = 0;

	if (*at < '0' || *at > '9')
		return 0;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (value > UINT32_MAX)
			return 0;
		value = value * 10 + (u64)(*at - '0');
	}
	for (u32 i = 0; units[i]; i++)
		if ((*at & ~0x20) == units[i]) {
			at++;
			value <<= 10 * (i + 1);
			break;
		}
	return cmdline_ends(*at) ? value : 0;
}

u64 registry_asked(const u8 *cmdline, u64 region_bytes)
{
	const u8 *value = cmdline_value(cmdline, PARAMETER);
	u64 asked = value ? read_size(value) : 0;

	asked &= ~(u64)(REM_REGISTRY_PAGE_BYTES - 1);
	return asked > region_bytes / 2 ? 0 : asked;
}
