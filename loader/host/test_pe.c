/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sections of the loader's own image. */
#include "../core/pe.h"
#include "check.h"

#define PE_AT 0x80u
#define OPTIONAL_AT (PE_AT + 24)
#define SECTIONS_AT (OPTIONAL_AT + 0xf0)
#define IMAGE_BYTES 0x20000u

static u8 head[PE_HEAD_BYTES];

static void put_section(u32 n, const char *name, u32 at, u32 bytes)
{
	u8 *to = head + SECTIONS_AT + n * 40;

	memset(to, 0, 40);
	for (u32 i = 0; i < 8 && name[i]; i++)
		to[i] = (u8)name[i];
	put_u32(to + 8, bytes);
	put_u32(to + 12, at);
}

static void put_headers(void)
{
	memset(head, 0, sizeof(head));
	put_u16(head, 0x5a4d);
	put_u32(head + 0x3c, PE_AT);
	put_u32(head + PE_AT, 0x4550);
	put_u16(head + PE_AT + 6, 3);
	put_u16(head + PE_AT + 20, 0xf0);
	put_u16(head + OPTIONAL_AT, 0x20b);
	put_u32(head + OPTIONAL_AT + 56, IMAGE_BYTES);
	put_section(0, ".text", 0x1000, 0x1000);
	put_section(1, ".linux", 0x10000, 0x8001);
	put_section(2, ".initrdx", 0x19000, 0x10);
}

static bool finds(const char *name)
{
	struct pe_section found;

	return pe_find(head, name, &found);
}

static void sections_are_found_by_their_whole_name(void)
{
	struct pe_section found = { 0 };

	put_headers();
	CHECK(pe_image_bytes(head) == IMAGE_BYTES, "the image's size");
	CHECK(pe_find(head, ".linux", &found) && found.at == 0x10000 &&
		      found.bytes == 0x8001,
	      "at %x, %x bytes", found.at, found.bytes);
	CHECK(finds(".initrdx"), "a name of eight letters");
	CHECK(!finds(".initrd") && !finds(".linu") && !finds(".linuxx") &&
		      !finds(""),
	      "a part of a name");
}

static void sections_outside_of_the_image_are_not_found(void)
{
	static const struct pe_section wrong[] = {
		{ 0, 0x1000 },
		{ 0xfff, 0x1000 },
		{ 0x10000, 0 },
		{ 0x10000, IMAGE_BYTES - 0xffff },
		{ IMAGE_BYTES, 1 },
		{ 0xfffff000, 0x2000 },
		{ 0x1000, UINT32_MAX - 1 },
	};

	for (u32 i = 0; i < GO_COUNT(wrong); i++) {
		put_headers();
		put_section(1, ".linux", wrong[i].at, wrong[i].bytes);
		CHECK(!finds(".linux"), "section %u", i);
	}
	put_headers();
	put_section(1, ".linux", 0x10000, IMAGE_BYTES - 0x10000);
	CHECK(finds(".linux"), "up to the end");
}

static void other_headers_have_no_sections(void)
{
	static const struct {
		u32 at, value;
	} wrong[] = {
		{ 0, 0 },
		{ 0x3c, PE_HEAD_BYTES },
		{ 0x3c, UINT32_MAX },
		{ PE_AT, 0 },
		{ OPTIONAL_AT, 0x10b },
		{ PE_AT + 20, 0x6f },
		{ PE_AT + 20, 0xffff },
		{ PE_AT + 4, 0xffff0000 }, /* the number of sections */
	};

	for (u32 i = 0; i < GO_COUNT(wrong); i++) {
		put_headers();
		put_u32(head + wrong[i].at, wrong[i].value);
		CHECK(!finds(".linux") && !pe_image_bytes(head), "headers %u",
		      i);
	}
}

void test_pe(void)
{
	sections_are_found_by_their_whole_name();
	sections_outside_of_the_image_are_not_found();
	other_headers_have_no_sections();
}
