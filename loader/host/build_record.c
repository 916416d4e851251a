/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "build_record.h"

#include "../core/crc32c.h"

/* In the first pages of memory, like those of a kernel. */
#define CR3_OFFSET 0x1000
#define CONTEXT_OFFSET 0x2000
#define CONTEXT_BYTES 640
#define ENTRY_OFFSET 0x1234560 /* in the region, behind the block */

void build_block(u8 *block, u64 region_bytes, u32 consumed)
{
	struct rem_word word = record_consumed(consumed);
	struct rem_block header = {
		.magic = REM_BLOCK_MAGIC,
		.version = REM_VERSION,
		.block_bytes = REM_BLOCK_BYTES,
		.region_bytes = region_bytes,
	};

	header.crc = crc32c(&header, offsetof(struct rem_block, crc));
	memcpy(block, &header, sizeof(header));
	memcpy(block + REM_CONSUMED_OFFSET, &word, sizeof(word));
	memset(block + REM_COMMIT_OFFSET, 0, 8);
	memset(block + REM_COMMIT_OFFSET + REM_COMMIT_STRIDE_BYTES, 0, 8);
}

void build_reseal(u8 *block, u32 n)
{
	u8 *body = block + REM_BODY_OFFSET + n * REM_BODY_STRIDE_BYTES;
	struct rem_body header;
	struct rem_word word;
	u32 bytes;

	memcpy(&header, body, sizeof(header));
	header.header_crc = crc32c(&header, REM_BODY_HEADER_CRC_BYTES);
	memcpy(body, &header, sizeof(header));
	bytes = header.body_bytes;
	if (bytes < sizeof(header) || bytes > REM_BODY_STRIDE_BYTES)
		bytes = sizeof(header);
	word = record_commit(header.sequence, crc32c(body, bytes));
	memcpy(block + REM_COMMIT_OFFSET + n * REM_COMMIT_STRIDE_BYTES, &word,
	       sizeof(word));
}

struct record_image build_image_of(u32 sequence, u64 region_phys,
				   u64 region_bytes, const struct desc *machine)
{
	return (struct record_image){
		.sequence = sequence,
		.region_phys = region_phys,
		.region_bytes = region_bytes,
		.memory_phys = region_phys + REM_BLOCK_BYTES,
		.entry_phys = region_phys + ENTRY_OFFSET,
		.policy = REM_POLICY_COLD,
		.entry = machine->entry,
		.entry_count = machine->count,
	};
}

void build_image(u8 *block, const struct record_image *image)
{
	u32 n = image->sequence % REM_SLOTS;
	u8 *body = block + REM_BODY_OFFSET + n * REM_BODY_STRIDE_BYTES;
	u32 table_bytes =
		image->entry_count * (u32)sizeof(struct rem_desc_entry);
	struct rem_body header = {
		.magic = REM_BODY_MAGIC,
		.version = REM_VERSION,
		.body_bytes = REM_BODY_HEADER_BYTES + table_bytes,
		.sequence = image->sequence,
		.stop_reason = REM_STOP_POWER,
		.stop_mode = REM_MODE_DPM,
		.region_phys = image->region_phys,
		.region_bytes = image->region_bytes,
		.entry_phys = image->entry_phys,
		.entry_cr3 = image->memory_phys + CR3_OFFSET,
		.context_phys = image->memory_phys + CONTEXT_OFFSET,
		.context_bytes = CONTEXT_BYTES,
		.cpu_count = 1,
		.desc_offset = REM_BODY_HEADER_BYTES,
		.desc_count = image->entry_count,
		.tsc_khz = 1000000,
		.policy = image->policy,
		.hold_s = image->hold_s,
	};

	memcpy(body, &header, sizeof(header));
	memcpy(body + header.desc_offset, image->entry, table_bytes);
	build_reseal(block, n);
}
