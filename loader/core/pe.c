/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "pe.h"

#include "interval.h"

/* Microsoft's PE format: where the file says that its headers are, and in them. */
#define DOS_HEADER_AT 0x3c
#define DOS_MAGIC 0x5a4d
#define PE_MAGIC 0x4550
#define COFF_SECTIONS 6
#define COFF_OPTIONAL_BYTES 20
#define COFF_BYTES 24 /* with the magic */
#define OPTIONAL_MAGIC 0x20b
#define OPTIONAL_IMAGE_BYTES 56
#define OPTIONAL_BYTES_MIN 112
#define SECTION_BYTES 40
#define SECTION_NAME_BYTES 8
#define SECTION_VIRTUAL_BYTES 8
#define SECTION_AT 12

/* struct headers - offsets into them, all checked */
struct headers {
	u32 optional;
	u32 sections;
	u32 count;
};

static bool read_headers(const u8 *head, struct headers *ret_headers)
{
	u32 at = get_u32(head + DOS_HEADER_AT);
	u32 optional_bytes;
	struct headers headers;

	if (get_u16(head) != DOS_MAGIC ||
	    !range_inside(at, COFF_BYTES + OPTIONAL_BYTES_MIN, 0,
			  PE_HEAD_BYTES) ||
	    get_u32(head + at) != PE_MAGIC)
		return false;
	optional_bytes = get_u16(head + at + COFF_OPTIONAL_BYTES);
	headers.optional = at + COFF_BYTES;
	headers.sections = headers.optional + optional_bytes;
	headers.count = get_u16(head + at + COFF_SECTIONS);
	if (optional_bytes < OPTIONAL_BYTES_MIN ||
	    get_u16(head + headers.optional) != OPTIONAL_MAGIC ||
	    !range_inside(headers.sections, (u64)headers.count * SECTION_BYTES,
			  0, PE_HEAD_BYTES))
		return false;
	*ret_headers = headers;
	return true;
}

u32 pe_image_bytes(const u8 *head)
{
	struct headers headers;

	if (!read_headers(head, &headers))
		return 0;
	return get_u32(head + headers.optional + OPTIONAL_IMAGE_BYTES);
}

static bool has_name(const u8 *section, const char *name)
{
	u32 i = 0;

	for (; i < SECTION_NAME_BYTES && name[i]; i++)
		if (section[i] != (u8)name[i])
			return false;
	return !name[i] && (i == SECTION_NAME_BYTES || !section[i]);
}

bool pe_find(const u8 *head, const char *name, struct pe_section *ret_section)
{
	u32 image_bytes = pe_image_bytes(head);
	struct headers headers;

	if (!image_bytes || !read_headers(head, &headers))
		return false;
	for (u32 i = 0; i < headers.count; i++) {
		const u8 *section = head + headers.sections + i * SECTION_BYTES;
		struct pe_section found = {
			.at = get_u32(section + SECTION_AT),
			.bytes = get_u32(section + SECTION_VIRTUAL_BYTES),
		};

		if (!has_name(section, name))
			continue;
		if (found.at < PE_HEAD_BYTES ||
		    !range_inside(found.at, found.bytes, 0, image_bytes))
			return false;
		*ret_section = found;
		return true;
	}
	return false;
}
