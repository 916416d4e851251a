/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A damaged record. An input is a list of patches to a block with two images:
 * {place u16, length u8, bytes}; places count only the parts that are read. Bit 0
 * of the first byte corrects the checksums of both slots, bit 1 those of the newer
 * one, so that mutations get past them.
 *
 * Oracle: an image that is entered has its entry, page table, contexts and text in a
 * range of NVRAM outside the block, is newer than the consumed word, is the newest, and
 * has the description of this machine.
 */
#include <stdlib.h>

#include "../core/crc32c.h"
#include "../core/interval.h"
#include "build_record.h"

#define REGION_PHYS 0x100000000ull
#define REGION_BYTES 0x40000000ull
#define CONSUMED 7
#define SECOND_PHYS 0x200000000ull
#define SECOND_BYTES 0x20000000ull
#define ENTRIES 7

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

static u8 *block;
static u8 pristine[0x30000];
static struct desc machine;

static const struct {
	u32 at, bytes;
} parts[] = {
	{ 0, sizeof(struct rem_block) },
	{ REM_CONSUMED_OFFSET, 8 },
	{ REM_COMMIT_OFFSET, 8 },
	{ REM_COMMIT_OFFSET + REM_COMMIT_STRIDE_BYTES, 8 },
	{ REM_BODY_OFFSET, 1024 },
	{ REM_BODY_OFFSET + REM_BODY_STRIDE_BYTES, 1024 },
};

static void make_pristine(void)
{
	struct record_image image = {
		.region_phys = REGION_PHYS,
		.region_bytes = REGION_BYTES,
		.memory_phys = REGION_PHYS + REM_BLOCK_BYTES,
		.entry_phys = REGION_PHYS + REM_BLOCK_BYTES,
		.policy = REM_POLICY_COLD,
		.entry = machine.entry,
		.entry_count = ENTRIES,
	};

	crc32c_init(true);
	for (u16 type = REM_DESC_KERNEL; type <= REM_DESC_PCI; type++)
		if (type != REM_DESC_MEMORY)
			desc_add(&machine, type, type, &(u64){ type * 3u }, 1);
	desc_add(&machine, REM_DESC_MEMORY, 0,
		 (u64[3]){ REGION_PHYS, REGION_BYTES, REM_MEMORY_NVRAM }, 3);
	desc_add(&machine, REM_DESC_MEMORY, 1,
		 (u64[3]){ SECOND_PHYS, SECOND_BYTES, REM_MEMORY_NVRAM }, 3);
	desc_finish(&machine);
	/* Exactly the bytes that may be read, so that ASan detects overruns. */
	block = malloc(REM_TIMELINE_OFFSET);
	memset(block, 0, REM_TIMELINE_OFFSET);
	build_block(block, REGION_BYTES, CONSUMED);
	for (image.sequence = CONSUMED; image.sequence <= CONSUMED + 1;
	     image.sequence++)
		build_image(block, &image);
	memcpy(pristine, block, REM_TIMELINE_OFFSET);
}

static void patch(u32 place, const u8 *bytes, u32 count)
{
	for (u32 i = 0; i < GO_COUNT(parts); i++) {
		if (place >= parts[i].bytes) {
			place -= parts[i].bytes;
			continue;
		}
		if (count > parts[i].bytes - place)
			count = parts[i].bytes - place;
		memcpy(block + parts[i].at + place, bytes, count);
		return;
	}
}

static bool in_image(u64 phys, u64 bytes)
{
	return range_inside(phys, bytes, REGION_PHYS + REM_BLOCK_BYTES,
			    REGION_BYTES - REM_BLOCK_BYTES) ||
	       range_inside(phys, bytes, SECOND_PHYS, SECOND_BYTES);
}

static void check_entered(const struct decision *decision)
{
	const struct rem_body *body = &decision->body;
	struct rem_word consumed;

	memcpy(&consumed, block + REM_CONSUMED_OFFSET, sizeof(consumed));
	if (record_consumed(consumed.sequence).check != consumed.check ||
	    decision->sequence <= consumed.sequence ||
	    decision->consume != decision->sequence ||
	    body->sequence != decision->sequence ||
	    decision->slot != decision->sequence % REM_SLOTS)
		abort();
	for (u32 n = 0; n < REM_SLOTS; n++)
		if (get_u32(block + REM_COMMIT_OFFSET +
			    n * REM_COMMIT_STRIDE_BYTES) > decision->sequence)
			abort();
	if (!in_image(body->entry_phys, 1) ||
	    !in_image(body->entry_cr3, 4096) ||
	    !in_image(body->context_phys,
		      (u64)body->context_bytes * body->cpu_count))
		abort();
	if (body->text_pages &&
	    (!in_image(body->text_phys, body->text_pages * 4096ull) ||
	     !in_image(body->text_phys + body->rodata_page * 4096ull,
		       body->rodata_pages * 4096ull)))
		abort();
	if (!body->policy || body->policy > REM_POLICY_HOLD_COLD ||
	    rem_holds(decision))
		abort();
	if (body->desc_count != ENTRIES ||
	    memcmp(block + REM_BODY_OFFSET +
			   decision->slot * REM_BODY_STRIDE_BYTES +
			   body->desc_offset,
		   machine.entry, ENTRIES * sizeof(machine.entry[0])))
		abort();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct decision decision;
	u8 seal;

	if (!block)
		make_pristine();
	memcpy(block, pristine, 64);
	memcpy(block + REM_CONSUMED_OFFSET, pristine + REM_CONSUMED_OFFSET, 8);
	for (u32 i = 4; i < GO_COUNT(parts); i++)
		memcpy(block + parts[i].at, pristine + parts[i].at, 1024);
	for (u32 i = 2; i < 4; i++)
		memcpy(block + parts[i].at, pristine + parts[i].at, 8);
	if (!bytes)
		return 0;
	seal = data[0];
	data++;
	bytes--;
	while (bytes > 3) {
		u32 count = data[2];

		if (count > bytes - 3)
			count = (u32)bytes - 3;
		patch(get_u16(data) % (64 + 24 + 2048), data + 3, count);
		data += 3 + count;
		bytes -= 3 + count;
	}
	if (seal & 1)
		build_reseal(block, 1);
	if (seal & 3)
		build_reseal(block, 0);
	rem_decide(block, REGION_PHYS, REGION_BYTES, &machine, false,
		   &decision);
	if (decision.reason == REM_BOOT_RESUME)
		check_entered(&decision);
	return 0;
}
