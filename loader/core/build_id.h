/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The build ids in a kernel's file (ELF notes of GNU, type 3): linkers make them from all
 * that they link. A kernel has its own, and that of each vDSO.
 *
 * To find them the whole file is read, which at Go would take longer than all the rest. So
 * a description of the machine says where they were; the notes there are read again.
 */
#ifndef LOADER_BUILD_ID_H
#define LOADER_BUILD_ID_H

#include "base.h"

#define BUILD_IDS_MAX 4
#define BUILD_NOTE_BYTES 36 /* header, name, and an id of 20 bytes */

struct build_ids {
	u32 count;
	bool more;	       /* than there is room for */
	u32 at[BUILD_IDS_MAX]; /* offsets in the file, ascending */
	u8 id[BUILD_IDS_MAX][20];
};

/* Whether these BUILD_NOTE_BYTES are a note with a build id. */
bool build_note_is(const u8 *note);

/* Add the note at offset @at of the file; offsets ascend. */
void build_ids_add(struct build_ids *ids, u32 at, const u8 *note);

/*
 * Add all notes that lie in @bytes of the file from offset @at on, which is a multiple of
 * four. Parts of a file overlap by BUILD_NOTE_BYTES - 4.
 */
void build_ids_scan(struct build_ids *ids, u32 at, const u8 *from, u32 bytes);

/* The offsets as two words of a description: the first one is the low half of the first. */
void build_ids_pack(const struct build_ids *ids, u64 word[2]);

/*
 * The offsets that the description at @desc, of REM_DESC_BYTES, has of a kernel's file.
 * It is untrusted: they may be anything. Return: how many, 0 if it has none.
 */
u32 build_ids_hint(const u8 *desc, u32 at[BUILD_IDS_MAX]);

#endif /* LOADER_BUILD_ID_H */
