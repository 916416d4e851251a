/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Interface for src/judge.rs: the loader's decision, with types for Rust. */
#include <string.h>

#include "../../../loader/core/crc32c.h"
#include "../../../format/rem_reason_name.h"
#include "../../../loader/core/record.h"

struct campaign_judged {
	u32 reason;
	u32 sequence;
	u64 context_phys;
	u32 context_bytes;
	u32 cpu_count;
	struct rem_desc_entry expected;
	struct rem_desc_entry found;
};

static_assert(sizeof(struct campaign_judged) == 120);

void campaign_init(void);
size_t campaign_desc_bytes(void);
bool campaign_desc_read(const u8 *from, size_t bytes, struct desc *ret_desc);
void campaign_judge(const u8 *block, u64 region_phys, u64 region_bytes,
		    const struct desc *found, struct campaign_judged *ret);
const char *campaign_reason(u32 reason);

void campaign_init(void)
{
	__builtin_cpu_init();
	crc32c_init(__builtin_cpu_supports("sse4.2"));
}

size_t campaign_desc_bytes(void)
{
	return sizeof(struct desc);
}

/* The description that a loader left at @from; false if it is invalid. */
bool campaign_desc_read(const u8 *from, size_t bytes, struct desc *ret_desc)
{
	struct rem_desc head;
	size_t entries;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, from, sizeof(head));
	if (head.magic != REM_DESC_MAGIC || !head.count ||
	    head.count > REM_DESC_ENTRIES_MAX)
		return false;
	entries = head.count * sizeof(struct rem_desc_entry);
	if (entries > bytes - sizeof(head) ||
	    crc32c(from + sizeof(head), entries) != head.crc)
		return false;
	ret_desc->count = head.count;
	ret_desc->full = false;
	memcpy(ret_desc->entry, from + sizeof(head), entries);
	return true;
}

void campaign_judge(const u8 *block, u64 region_phys, u64 region_bytes,
		    const struct desc *found, struct campaign_judged *ret)
{
	struct decision decision;

	rem_decide(block, region_phys, region_bytes, found, false, &decision);
	*ret = (struct campaign_judged){
		.reason = decision.reason,
		.sequence = decision.sequence,
		.context_phys = decision.body.context_phys,
		.context_bytes = decision.body.context_bytes,
		.cpu_count = decision.body.cpu_count,
		.expected = decision.expected,
		.found = decision.found,
	};
}

const char *campaign_reason(u32 reason)
{
	return rem_reason_name(reason);
}
