/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What a body must have, whatever the machine: the loader checks it before it
 * enters an image, and the kernel before it promises one. So what is armed can be
 * entered.
 */
#ifndef REM_JUDGE_H
#define REM_JUDGE_H

#ifdef __KERNEL__
#include <linux/remanence/rem_image.h>
#else
#include <stdbool.h>

#include "rem_image.h"
#endif

#define REM_RANGE_ALIGN_BYTES 4096

/* True if the range is not empty and its last byte has an address. */
static inline bool rem_range_valid(rem_u64 base, rem_u64 bytes)
{
	return bytes && base <= ~(rem_u64)0 - (bytes - 1);
}

/* True if @entry describes a range of NVRAM. */
static inline bool rem_is_nvram(const struct rem_desc_entry *entry)
{
	return entry->type == REM_DESC_MEMORY &&
	       entry->value[2] == REM_MEMORY_NVRAM;
}

/*
 * True if NVRAM contains [base, base + bytes). Its ranges, among @count entries,
 * ascend; what they contain together may be in several that are adjacent.
 */
static inline bool rem_nvram_contains(const struct rem_desc_entry *entry,
				      rem_u32 count, rem_u64 base,
				      rem_u64 bytes)
{
	rem_u64 last = base + (bytes - 1);

	if (!rem_range_valid(base, bytes))
		return false;
	for (; count; count--, entry++) {
		rem_u64 range_last = entry->value[0] + (entry->value[1] - 1);

		if (!rem_is_nvram(entry) || base > range_last)
			continue;
		if (base < entry->value[0])
			return false;
		if (last <= range_last)
			return true;
		base = range_last + 1;
	}
	return false;
}

/* NULL, or what is wrong with the ranges of NVRAM among @count entries. */
static inline const char *rem_ranges_wrong(const struct rem_body *body,
					   const struct rem_desc_entry *entry,
					   rem_u32 count)
{
	bool has_block = false;
	rem_u32 ranges = 0;
	rem_u64 last = 0;

	for (; count; count--, entry++) {
		rem_u64 base = entry->value[0], bytes = entry->value[1];

		if (!rem_is_nvram(entry))
			continue;
		if (!rem_range_valid(base, bytes) ||
		    base % REM_RANGE_ALIGN_BYTES ||
		    bytes % REM_RANGE_ALIGN_BYTES)
			return "a range of NVRAM is impossible";
		if (ranges && base <= last)
			return "ranges of NVRAM overlap";
		if (++ranges > REM_RANGES_MAX)
			return "NVRAM has too many ranges";
		last = base + (bytes - 1);
		has_block |= base == body->region_phys &&
			     bytes == body->region_bytes;
	}
	return has_block ? NULL : "the record block is in no range of NVRAM";
}

/* True if the image may have something at [base, base + bytes). */
static inline bool rem_in_image(const struct rem_body *body,
				const struct rem_desc_entry *entry,
				rem_u64 base, rem_u64 bytes)
{
	rem_u64 block_last = body->region_phys + (REM_BLOCK_BYTES - 1);

	return rem_nvram_contains(entry, body->desc_count, base, bytes) &&
	       (base > block_last || base + (bytes - 1) < body->region_phys);
}

/* NULL, or which policy is impossible. */
static inline const char *rem_policy_wrong(const struct rem_body *body)
{
	bool holds = body->policy != REM_POLICY_COLD;

	if (body->policy < REM_POLICY_COLD ||
	    body->policy > REM_POLICY_HOLD_COLD)
		return "the policy is unknown";
	if (body->hold_s > REM_HOLD_MAX_S || !!body->hold_s != holds)
		return "the time to hold the image is impossible";
	return NULL;
}

/* NULL, or what is wrong with the places that a body names. */
static inline const char *rem_places_wrong(const struct rem_body *body,
					   const struct rem_desc_entry *entry)
{
	rem_u64 contexts = (rem_u64)body->context_bytes * body->cpu_count;

	if (!rem_in_image(body, entry, body->entry_phys, 1))
		return "the kernel's entry point is outside of NVRAM";
	if (body->entry_cr3 % REM_RANGE_ALIGN_BYTES ||
	    !rem_in_image(body, entry, body->entry_cr3, REM_RANGE_ALIGN_BYTES))
		return "the page table is outside of NVRAM";
	if (body->context_phys % 8 ||
	    !rem_in_image(body, entry, body->context_phys, contexts))
		return "the CPU contexts are outside of NVRAM";
	return NULL;
}

/* NULL, or what is wrong with the text and data that are authenticated, too. */
static inline const char *rem_text_wrong(const struct rem_body *body,
					 const struct rem_desc_entry *entry)
{
	rem_u64 text = (rem_u64)body->text_pages * REM_TEXT_PAGE_BYTES;
	rem_u64 rodata = (rem_u64)body->rodata_pages * REM_TEXT_PAGE_BYTES;
	rem_u64 rodata_at = (rem_u64)body->rodata_page * REM_TEXT_PAGE_BYTES;

	if (!body->text_pages)
		return body->text_phys || body->text_counter ||
				       body->rodata_page || body->rodata_pages ?
			       "a place of text is given that has no sum" :
			       NULL;
	if (!body->key_counter)
		return "the kernel's text has a sum, and the image no key";
	if (body->text_pages > REM_TEXT_PAGES_MAX ||
	    body->rodata_pages > REM_TEXT_PAGES_MAX)
		return "the kernel's text is too large";
	if (body->text_phys % REM_TEXT_PAGE_BYTES ||
	    body->text_phys > ~(rem_u64)0 - rodata_at || rodata_at < text ||
	    !rem_in_image(body, entry, body->text_phys, text) ||
	    !rem_in_image(body, entry, body->text_phys + rodata_at, rodata))
		return "the kernel's text is outside of NVRAM";
	return NULL;
}

/*
 * NULL, or what is wrong with a body, one line for users. @entry is its table of
 * desc_count entries.
 */
static inline const char *rem_body_wrong(const struct rem_body *body,
					 const struct rem_desc_entry *entry)
{
	const char *wrong;

	if (body->stop_reason < REM_STOP_POWER ||
	    body->stop_reason > REM_STOP_PLANNED)
		return "the reason of the Stop is unknown";
	if (body->stop_mode < REM_MODE_DPM || body->stop_mode > REM_MODE_SNG)
		return "the mode of the Stop is unknown";
	if (body->region_bytes <= REM_BLOCK_BYTES)
		return "the range with the record block is too small";
	wrong = rem_policy_wrong(body);
	if (!wrong)
		wrong = rem_ranges_wrong(body, entry, body->desc_count);
	if (!wrong)
		wrong = rem_places_wrong(body, entry);
	return wrong ? wrong : rem_text_wrong(body, entry);
}

#endif /* REM_JUDGE_H */
