/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The answers of a TPM: each is its size as u16, then as many bytes; when they end,
 * there is none any more. A size that is larger than the buffer is passed on.
 *
 * Oracle: a function fails if and only if it names what has failed (tpm_close() may
 * name a flush and be done); what a TPM was too busy for is sent again as it was, after
 * one pause, TRIES times in all; whether firmware has measured matters only to the first
 * PCR_Read; no key stays in the buffer, no handle after tpm_close(); what is behind the
 * end of an answer has no effect.
 */
#include <stdlib.h>
#include <string.h>

#include "../core/tpm.h"

#define TRIES 250u

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

/*
 * struct answers
 * @fill: behind the end of each
 * @tries: how often the last command was sent, while the TPM was too busy for it
 */
struct answers {
	const u8 *at;
	size_t left;
	u8 fill;
	u32 tries, pauses;
	u8 sent[TPM_COMMAND_BYTES];
	u32 sent_bytes;
};

/* struct talked - what the loader has of its conversation */
struct talked {
	u32 steps; /* that were done */
	u32 code;
	u64 counter;
	u8 policy[TPM_DIGEST_BYTES], name[TPM_DIGEST_BYTES];
	u8 key[TPM_DIGEST_BYTES], next[TPM_DIGEST_BYTES];
};

/* The TPM is too busy for the command, by its answer of @bytes. */
static bool is_busy(const u8 *buffer, u32 bytes)
{
	static const u8 codes[] = { 0x08, 0x0a, 0x20, 0x22 };
	const u8 size[4] = { 0, 0, (u8)(bytes >> 8), (u8)bytes };

	if (bytes < 10 || bytes > TPM_BUFFER_BYTES ||
	    memcmp(buffer + 2, size, sizeof(size)) || buffer[6] || buffer[7] ||
	    buffer[8] != 0x09)
		return false;
	return memchr(codes, buffer[9], sizeof(codes));
}

static void check_command(struct answers *answers, const u8 *buffer, u32 bytes)
{
	if (bytes < 10 || bytes > TPM_COMMAND_BYTES)
		abort();
	if (answers->tries == TRIES)
		answers->tries = 0;
	else if (answers->tries && (bytes != answers->sent_bytes ||
				    memcmp(buffer, answers->sent, bytes)))
		abort();
	if (answers->pauses != (answers->tries ? 1 : 0))
		abort();
	answers->pauses = 0;
	memcpy(answers->sent, buffer, bytes);
	answers->sent_bytes = bytes;
}

static u32 talk(void *context, u8 *buffer, u32 bytes)
{
	struct answers *answers = context;
	u32 come, some;

	check_command(answers, buffer, bytes);
	if (answers->left < 2) {
		answers->tries = 0;
		return 0;
	}
	come = get_u16(answers->at);
	answers->at += 2;
	answers->left -= 2;
	if (come > answers->left)
		come = (u32)answers->left;
	some = come < TPM_BUFFER_BYTES ? come : TPM_BUFFER_BYTES;
	memset(buffer, answers->fill, TPM_BUFFER_BYTES);
	memcpy(buffer, answers->at, some);
	answers->at += come;
	answers->left -= come;
	answers->tries = is_busy(buffer, come) ? answers->tries + 1 : 0;
	return come;
}

static void pause_once(void *context)
{
	((struct answers *)context)->pauses++;
}

/* Count a step of @tpm that says that it is @done. */
static bool step(const struct tpm *tpm, struct talked *talked, bool done)
{
	if (done != !tpm->failed)
		abort();
	talked->steps += done;
	talked->code = tpm->code;
	return done;
}

static bool key_step(struct tpm *tpm, struct talked *talked, u64 number,
		     u8 key[TPM_DIGEST_BYTES])
{
	bool done = tpm_key(tpm, 0x52454d49, number, key);

	if (done || !strcmp(tpm->failed, "HMAC"))
		for (u32 i = 0; i < TPM_BUFFER_BYTES; i++)
			if (tpm->buffer[i])
				abort();
	return step(tpm, talked, done);
}

/* Handles are given up, whatever has failed; what is not flushed is no failure. */
static bool close_step(struct tpm *tpm, struct talked *talked)
{
	bool done = tpm_close(tpm);

	if (tpm->session || tpm->root)
		abort();
	return step(tpm, talked, done);
}

/* In the loader's order. */
static void talk_before_kernel(struct tpm *tpm, bool measured, struct talked *t)
{
	if (!step(tpm, t, tpm_start(tpm)) ||
	    !step(tpm, t, tpm_counter(tpm, &t->counter)))
		return;
	if (!t->counter)
		abort();
	if (!step(tpm, t, tpm_open(tpm, measured, t->policy)))
		return;
	if (!tpm->session || !tpm->root)
		abort();
	if (key_step(tpm, t, 0, t->name) &&
	    key_step(tpm, t, t->counter, t->key) &&
	    key_step(tpm, t, t->counter + 1, t->next) && close_step(tpm, t))
		step(tpm, t, tpm_count(tpm, t->counter));
}

static const char *talk_with(const u8 *data, size_t bytes, u8 fill,
			     bool measured, struct talked *talked)
{
	struct answers answers = { .at = data, .left = bytes, .fill = fill };
	struct tpm tpm = {
		.talk = talk,
		.pause = pause_once,
		.context = &answers,
	};

	talk_before_kernel(&tpm, measured, talked);
	return tpm.failed;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static struct talked talked[3];
	const char *failed;

	memset(talked, 0, sizeof(talked));
	failed = talk_with(data, bytes, 0, true, &talked[0]);
	if (talk_with(data, bytes, 0xff, true, &talked[1]) != failed ||
	    memcmp(&talked[0], &talked[1], sizeof(talked[0])))
		abort();
	/* Firmware that has not measured may have zeros: no other difference. */
	talk_with(data, bytes, 0, false, &talked[2]);
	if (memcmp(&talked[0], &talked[2], sizeof(talked[0])) &&
	    (!failed || strcmp(failed, "PCR_Read") || talked[0].steps != 2))
		abort();
	return 0;
}
