/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../core/crc32c.h"
#include "../core/registry.h"
#include "check.h"

#define REGION 0x100000000ull
#define REGION_BYTES 0x40000000ull
#define MIB 0x100000ull

static struct rem_registry make_head(u64 bytes, u32 files, u32 pages)
{
	struct rem_registry head = {
		.magic = REM_REGISTRY_MAGIC,
		.version = REM_REGISTRY_VERSION,
		.files = files,
		.bytes = bytes,
		.pages = pages,
	};

	head.crc = crc32c(&head, offsetof(struct rem_registry, crc));
	return head;
}

static bool judged(struct rem_registry head, struct registry *ret_registry)
{
	return registry_judge((const u8 *)&head, REGION, REGION_BYTES,
			      ret_registry);
}

static void test_head(void)
{
	/* 256 KiB of files, 250 KiB of pages, 15.6 MiB of slots and the head. */
	struct rem_registry right = make_head(16 * MIB, 250, 4000);
	struct registry registry;
	struct rem_registry head;

	CHECK(judged(right, &registry), "a registry is found");
	CHECK(registry.base == REGION + REGION_BYTES - 16 * MIB, "its base");
	CHECK(registry_entry_phys(&registry, 1) ==
		      registry.base + 250 * 512 + 64,
	      "the entry of a page");
	CHECK(registry_slot_phys(&registry, 3999) ==
		      REGION + REGION_BYTES - 2 * REM_REGISTRY_PAGE_BYTES,
	      "the last slot is before the head");
	CHECK(registry_slot_phys(&registry, 0) >=
		      registry_entry_phys(&registry, 4000),
	      "slots are behind the tables");
	for (u32 i = 0; i < 8 * sizeof(head); i++) {
		head = right;
		((u8 *)&head)[i / 8] ^= (u8)(1 << i % 8);
		CHECK(!judged(head, &registry), "bit %u is noticed", i);
		CHECK(!registry.bytes, "then there is none");
	}
	CHECK(!judged(make_head(16 * MIB, 0, 4000), &registry), "no files");
	CHECK(!judged(make_head(16 * MIB, 250, 0), &registry), "no pages");
	CHECK(!judged(make_head(16 * MIB, 250, 4096), &registry),
	      "slots do not fit");
	CHECK(!judged(make_head(16 * MIB, 65537, 1), &registry), "files");
	CHECK(!judged(make_head(16 * MIB + 1, 250, 4000), &registry),
	      "half a page");
	CHECK(!judged(make_head(REGION_BYTES, 250, 4000), &registry),
	      "the block is in it");
	CHECK(!judged(make_head(1ull << 63, 250, 4000), &registry),
	      "more than there is");
}

static struct rem_registry_page make_page(u64 phys)
{
	struct rem_registry_page page = { .id = 1, .index = 2, .phys = phys };

	page.crc = crc32c(&page, offsetof(struct rem_registry_page, crc));
	return page;
}

static void test_page(void)
{
	struct ranges nvram = { .count = 2,
				.range = { { REGION, REGION_BYTES },
					   { 4 * REGION, MIB } } };
	struct rem_registry head = make_head(16 * MIB, 250, 4000);
	struct rem_registry_page page;
	struct registry registry;
	static const struct {
		u64 phys;
		bool waits;
	} places[] = {
		{ REGION + REM_BLOCK_BYTES, true },
		{ REGION + REM_BLOCK_BYTES - 4096, false },
		{ REGION, false },
		{ REGION + REGION_BYTES - 16 * MIB - 4096, true },
		{ REGION + REGION_BYTES - 16 * MIB, false },
		{ REGION + REGION_BYTES - 4096, false },
		{ REGION + REGION_BYTES, false },
		{ 4 * REGION, true },
		{ 4 * REGION + MIB, false },
		{ 4 * REGION + 1, false },
		{ 0, false },
		{ ~0ull << 12, false },
	};

	judged(head, &registry);
	for (u32 i = 0; i < GO_COUNT(places); i++) {
		page = make_page(places[i].phys);
		CHECK(registry_page_waits(&page, &registry, &nvram, REGION) ==
			      places[i].waits,
		      "a page at %llx", (unsigned long long)places[i].phys);
	}
	page = make_page(places[0].phys);
	page.saved = REM_REGISTRY_SAVED;
	CHECK(!registry_page_waits(&page, &registry, &nvram, REGION), "saved");
	page = make_page(places[0].phys);
	page.id = 0;
	CHECK(!registry_page_waits(&page, &registry, &nvram, REGION), "free");
	page = make_page(places[0].phys);
	page.index++;
	CHECK(!registry_page_waits(&page, &registry, &nvram, REGION), "torn");
}

static void test_asked(void)
{
	static const struct {
		const char *cmdline;
		u64 bytes;
	} cases[] = {
		{ "", 0 },
		{ "quiet", 0 },
		{ "remanence.persist=16M", 16 * MIB },
		{ " ro remanence.persist=64k quiet", 64 << 10 },
		{ "remanence.persist=8193", 8192 },
		{ "remanence.persist=16M remanence.persist=1M", MIB },
		{ "remanence.persist=16M remanence.persist=x", 0 },
		{ "remanence.persist=16MB", 0 },
		{ "remanence.persist=-1", 0 },
		{ "remanence.persist=", 0 },
		{ "xremanence.persist=16M", 0 },
		{ "remanence.persist=512M", 512 * MIB },
		{ "remanence.persist=513M", 0 },
		{ "remanence.persist=99999999999999999999G", 0 },
		{ "remanence.persist", 0 },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++)
		CHECK(registry_asked((const u8 *)cases[i].cmdline,
				     REGION_BYTES) == cases[i].bytes,
		      "'%s'", cases[i].cmdline);
}

void test_registry(void)
{
	test_head();
	test_page();
	test_asked();
}
