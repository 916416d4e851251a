/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Invariant 14: where images are authenticated, one is entered only if a kernel that
 * this loader has started authenticated it in its Stop, in the boot before this one.
 */
#include "trust.h"

#include "../../format/rem_text.h"

/* In a time that does not depend on where they differ. */
static bool same_mac(const u8 *a, const u8 *b)
{
	u8 differs = 0;

	for (u32 i = 0; i < REM_MAC_BYTES; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

void rem_trust_new_life(const struct trust *trust, u64 counter,
			struct trust_text *ret_text)
{
	*ret_text = (struct trust_text){ .counter = counter };
	rem_text_key(trust->name, counter, ret_text->key);
}

/*
 * Its sizes and places are possible (rem_judge.h), but not known to be right. @text
 * stays as it is, zeros, if there are none.
 */
static void sum_text(const struct trust *trust, const struct rem_body *body,
		     const struct trust_views *views, struct trust_text *text)
{
	const u64 chunks = REM_TEXT_PAGE_BYTES / REM_TEXT_CHUNK_BYTES;

	if (!body->text_pages)
		return;
	rem_trust_new_life(trust, body->text_counter, text);
	rem_text_add(text->sum, text->key, views->text,
		     body->text_pages * chunks);
	rem_text_add(text->sum, text->key, views->rodata,
		     body->rodata_pages * chunks);
	rem_text_reduce(text->sum);
}

static bool covers(const struct trust *trust, const struct rem_body *body,
		   const u8 *body_at, const struct trust_views *views,
		   struct trust_text *text)
{
	u64 contexts_bytes = (u64)body->context_bytes * body->cpu_count;
	u8 table[REM_MAC_BYTES], right[REM_MAC_BYTES];
	struct rem_mac mac;

	if (contexts_bytes > REM_MAC_CONTEXTS_MAX)
		return false;
	sum_text(trust, body, views, text);
	rem_mac_table(body, body_at, table);
	rem_mac_begin(&mac, trust->key);
	rem_mac_contexts(&mac, table, body, views->contexts);
	rem_mac_text(&mac, body, text->sum);
	rem_mac_header(&mac, body, right);
	memset(&mac, 0, sizeof(mac));
	return same_mac(right, body->mac);
}

u32 rem_trust_judge(const struct trust *trust, const u8 *block,
		    const struct decision *decision,
		    const struct trust_views *views,
		    struct trust_text *ret_text)
{
	const struct rem_body *body = &decision->body;
	const u8 *body_at = block + REM_BODY_OFFSET +
			    decision->slot * REM_BODY_STRIDE_BYTES;
	struct trust_text text = { 0 };

	if (!body->key_counter)
		return trust->state == REM_TRUST_OFF ?
			       REM_BOOT_RESUME :
			       REM_COLD_NOT_AUTHENTICATED;
	if (trust->state != REM_TRUST_ON)
		return REM_COLD_TPM_DIFFERS;
	if (body->measured != trust->measured)
		return REM_COLD_MEASURED_DIFFERS;
	if (body->key_id != trust->key_id)
		return REM_COLD_TPM_DIFFERS;
	if (body->key_counter != trust->counter)
		return REM_COLD_REPLAYED;
	if (!covers(trust, body, body_at, views, &text))
		return REM_COLD_FORGED;
	*ret_text = text;
	return REM_BOOT_RESUME;
}
