/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "build_id.h"

#include "../../format/rem_image.h"

#define NOTE_ID_AT 16
#define NOTE_OF_BUILD_ID 3

bool build_note_is(const u8 *note)
{
	return get_u32(note) == 4 &&
	       get_u32(note + 4) == BUILD_NOTE_BYTES - NOTE_ID_AT &&
	       get_u32(note + 8) == NOTE_OF_BUILD_ID &&
	       !memcmp(note + 12, "GNU", 4);
}

void build_ids_add(struct build_ids *ids, u32 at, const u8 *note)
{
	if (ids->count == BUILD_IDS_MAX) {
		ids->more = true;
		return;
	}
	ids->at[ids->count] = at;
	memcpy(ids->id[ids->count++], note + NOTE_ID_AT, sizeof(ids->id[0]));
}

void build_ids_scan(struct build_ids *ids, u32 at, const u8 *from, u32 bytes)
{
	for (u32 n = 0;
	     bytes >= BUILD_NOTE_BYTES && n <= bytes - BUILD_NOTE_BYTES; n += 4)
		if (build_note_is(from + n))
			build_ids_add(ids, at + n, from + n);
}

void build_ids_pack(const struct build_ids *ids, u64 word[2])
{
	word[0] = word[1] = 0;
	for (u32 i = 0; i < ids->count; i++)
		word[i / 2] |= (u64)ids->at[i] << (i % 2 * 32);
}

u32 build_ids_hint(const u8 *desc, u32 at[BUILD_IDS_MAX])
{
	struct rem_desc_entry entry;
	struct rem_desc head;
	u32 count = 0;

	memcpy(&head, desc, sizeof(head));
	if (head.magic != REM_DESC_MAGIC || head.count > REM_DESC_ENTRIES_MAX)
		return 0;
	for (u32 n = 0; n < head.count; n++) {
		memcpy(&entry, desc + sizeof(head) + n * sizeof(entry),
		       sizeof(entry));
		if (entry.type != REM_DESC_KERNEL)
			continue;
		for (u32 i = 0; i < BUILD_IDS_MAX; i++) {
			u32 offset =
				(u32)(entry.value[3 + i / 2] >> (i % 2 * 32));

			if (offset)
				at[count++] = offset;
		}
		return count;
	}
	return 0;
}
