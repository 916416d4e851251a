/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the loader asks of a TPM 2.0 (TPM 2.0 Library, parts 1 to 3): keys that it
 * gives only to this loader on this firmware, and a counter that never goes back.
 *
 * The root of the keys is an HMAC key that the TPM derives from its owner's seed, from
 * the same template at each boot, so nothing is stored and nobody can choose it. Its
 * policy is that measurements are what they are now: to other software the TPM does
 * not give it, and tpm_close() ends it for this boot. A key of a boot is the HMAC of
 * the counter's value.
 */
#ifndef LOADER_TPM_H
#define LOADER_TPM_H

#include "base.h"

#define TPM_BUFFER_BYTES 1024u
#define TPM_COMMAND_BYTES 128u /* more than any that is sent */
#define TPM_DIGEST_BYTES 32u

/*
 * struct tpm
 * @talk: send the command of @bytes in @buffer, and put the answer there, up to
 *	TPM_BUFFER_BYTES; returns its bytes, 0 = no answer
 * @pause: wait for some 20 ms, before a command that the TPM was too busy for is sent
 *	again; NULL = do not wait
 * @failed: the command that failed first, by name; NULL = none
 * @code: what the TPM answered to it; 0 = nothing, or what cannot be understood
 */
struct tpm {
	u32 (*talk)(void *context, u8 *buffer, u32 bytes);
	void (*pause)(void *context);
	void *context;
	const char *failed;
	u32 code;
	u32 root, session; /* handles in the TPM, 0 = none */
	u32 at, end;	   /* of the command, then of the answer */
	u8 command[TPM_COMMAND_BYTES];
	u8 buffer[TPM_BUFFER_BYTES];
};

/*
 * All of these return false if the TPM does not do its part; @failed and
 * @code say why, and the TPM is not to be used any more.
 */

/* Start it, unless firmware has. */
bool tpm_start(struct tpm *tpm);

/*
 * Make the root of the keys; @ret_policy tells measurements apart. Fails if not all of
 * the measurements that count are kept, or, where @measured by firmware, those of
 * firmware and of the loader are zero.
 */
bool tpm_open(struct tpm *tpm, bool measured, u8 ret_policy[TPM_DIGEST_BYTES]);

/* The key with this label and number. */
bool tpm_key(struct tpm *tpm, u32 label, u64 number,
	     u8 ret_key[TPM_DIGEST_BYTES]);

/* The counter, which is made if it is not there; it is never 0. */
bool tpm_counter(struct tpm *tpm, u64 *ret_count);

/* Count to @count + 1, and no other number. */
bool tpm_count(struct tpm *tpm, u64 count);

/* Give up what tpm_open() has made, before it is tried again. */
void tpm_forget(struct tpm *tpm);

/* Until the next reset nobody gets a key any more, the loader included. */
bool tpm_close(struct tpm *tpm);

#endif /* LOADER_TPM_H */
