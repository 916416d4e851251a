/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Invariant 14: where images are authenticated, one is entered only if a kernel that
 * this loader has started authenticated it in its Stop, in the boot before this one.
 */
#include "trust.h"

#include "../../format/rem_mac.h"

/* In a time that does not depend on where they differ. */
static bool same_mac(const u8 *a, const u8 *b)
{
	u8 differs = 0;

	for (u32 i = 0; i < REM_MAC_BYTES; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

static bool covers(const u8 key[REM_KEY_BYTES], const struct rem_body *body,
		   const u8 *body_at, const u8 *contexts)
{
	u64 contexts_bytes = (u64)body->context_bytes * body->cpu_count;
	u8 table[REM_MAC_BYTES], right[REM_MAC_BYTES];
	struct rem_mac mac;

	if (contexts_bytes > REM_MAC_CONTEXTS_MAX)
		return false;
	rem_mac_table(body, body_at, table);
	rem_mac_begin(&mac, key);
	rem_mac_contexts(&mac, table, body, contexts);
	rem_mac_header(&mac, body, right);
	memset(&mac, 0, sizeof(mac));
	return same_mac(right, body->mac);
}

u32 rem_trust_judge(const struct trust *trust, const u8 *block,
		    const struct decision *decision, const u8 *contexts)
{
	const struct rem_body *body = &decision->body;
	const u8 *body_at = block + REM_BODY_OFFSET +
			    decision->slot * REM_BODY_STRIDE_BYTES;

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
	return covers(trust->key, body, body_at, contexts) ? REM_BOOT_RESUME :
							     REM_COLD_FORGED;
}
