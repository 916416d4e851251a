/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands and answers are big-endian. No byte of an answer is trusted: what does not
 * fit is a failure.
 */
#include "tpm.h"

#define TAG_PLAIN 0x8001u
#define TAG_SESSIONS 0x8002u
#define HEADER_BYTES 10u

/* Commands, part 2, 6.5.2. */
#define NV_DEFINE_SPACE 0x12au
#define CREATE_PRIMARY 0x131u
#define NV_INCREMENT 0x134u
#define STARTUP 0x144u
#define NV_READ 0x14eu
#define HMAC 0x155u
#define FLUSH_CONTEXT 0x165u
#define NV_READ_PUBLIC 0x169u
#define START_AUTH_SESSION 0x176u
#define POLICY_PCR 0x17fu
#define POLICY_RESTART 0x180u
#define PCR_READ 0x17eu
#define PCR_EXTEND 0x182u
#define POLICY_GET_DIGEST 0x189u

/* Answers, 6.6.2. A handle that is not there: format 1, error 0x0b, first handle. */
#define ANSWER_DONE 0x000u
#define ANSWER_STARTED 0x100u
#define ANSWER_NO_HANDLE 0x18bu
/* Warnings: to be sent again. Of a command that never ends the loader has enough. */
#define ANSWER_YIELDED 0x908u
#define ANSWER_TESTING 0x90au
#define ANSWER_NV_RATE 0x920u
#define ANSWER_RETRY 0x922u
#define TRIES_MAX 250u

#define ALG_HMAC 0x0005u
#define ALG_KEYEDHASH 0x0008u
#define ALG_SHA256 0x000bu
#define ALG_NULL 0x0010u
#define HANDLE_NULL 0x40000007u
#define HANDLE_OWNER 0x40000001u
#define HANDLE_PASSWORD 0x40000009u
#define SESSION_POLICY 1u
#define CONTINUE_SESSION 1u
#define NONCE_BYTES 16u

/* The root: fixedTPM, fixedParent, sensitiveDataOrigin, noDA, sign; 8.3. */
#define ROOT_ATTRIBUTES (1u << 1 | 1u << 4 | 1u << 5 | 1u << 10 | 1u << 18)

/* An index of the range that is the owner's: registry of reserved handles, 2.2.2. */
#define COUNTER_INDEX 0x01800052u
/* AUTHWRITE, a counter, AUTHREAD, NO_DA; 13.4. Anybody may count: that loses an image. */
#define COUNTER_ATTRIBUTES (1u << 2 | 1u << 4 | 1u << 18 | 1u << 25)
#define COUNTER_WRITTEN (1u << 29)
#define COUNTER_BYTES 8u

/*
 * Firmware's code, its drivers' code, what it boots, Secure Boot (PC Client Platform
 * Firmware Profile, 3.3.4); and the one that the loader extends when it has its keys.
 */
#define PCRS (1u << 0 | 1u << 2 | 1u << 4 | 1u << 7 | 1u << PCR_CLOSE)
#define PCRS_COUNT 5u
#define PCR_CLOSE 14u

static void put(struct tpm *tpm, u64 value, u32 bytes)
{
	while (bytes--)
		tpm->command[tpm->at++] = (u8)(value >> 8 * bytes);
}

static u64 get(struct tpm *tpm, u32 bytes)
{
	u64 value = 0;

	if (bytes > tpm->end - tpm->at) {
		tpm->at = tpm->end;
		return 0;
	}
	while (bytes--)
		value = value << 8 | tpm->buffer[tpm->at++];
	return value;
}

static void begin(struct tpm *tpm, u32 command, u32 tag)
{
	tpm->at = 0;
	put(tpm, tag, 2);
	put(tpm, 0, 4);
	put(tpm, command, 4);
}

/* The area of one session, after the handles: its secret is empty. */
static void put_session(struct tpm *tpm, u32 handle)
{
	put(tpm, 9, 4);
	put(tpm, handle, 4);
	put(tpm, 0, 2);
	put(tpm, handle == HANDLE_PASSWORD ? 0 : CONTINUE_SESSION, 1);
	put(tpm, 0, 2);
}

/* One list of one bank, as bytes of a number. */
static u64 pcr_list(u32 pcrs)
{
	return (u64)ALG_SHA256 << 32 | 3u << 24 | (pcrs & 0xff) << 16 |
	       (pcrs & 0xff00) | (pcrs >> 16 & 0xff);
}

static void put_pcrs(struct tpm *tpm, u32 pcrs)
{
	put(tpm, 1, 4);
	put(tpm, pcr_list(pcrs), 6);
}

/* The code of the answer, or ~0 if there is none. @at: after its header. */
static u32 talk_once(struct tpm *tpm, u32 bytes)
{
	memcpy(tpm->buffer, tpm->command, bytes);
	tpm->end = tpm->talk(tpm->context, tpm->buffer, bytes);
	tpm->at = 2;
	if (tpm->end < HEADER_BYTES || tpm->end > TPM_BUFFER_BYTES ||
	    get(tpm, 4) != tpm->end)
		return ~0u;
	return (u32)get(tpm, 4);
}

static bool is_busy(u32 code)
{
	return code == ANSWER_YIELDED || code == ANSWER_TESTING ||
	       code == ANSWER_NV_RATE || code == ANSWER_RETRY;
}

/* The same; a TPM that is busy is asked again. */
static u32 talk(struct tpm *tpm)
{
	u32 bytes = tpm->at, tries = TRIES_MAX, code;

	tpm->at = 2;
	put(tpm, bytes, 4);
	code = talk_once(tpm, bytes);
	while (is_busy(code) && --tries) {
		if (tpm->pause)
			tpm->pause(tpm->context);
		code = talk_once(tpm, bytes);
	}
	return code;
}

static bool fail(struct tpm *tpm, const char *what, u32 code)
{
	if (tpm->failed)
		return false;
	tpm->failed = what;
	tpm->code = code == ~0u ? 0 : code;
	return false;
}

static bool done(struct tpm *tpm, const char *what)
{
	u32 code = talk(tpm);

	return code == ANSWER_DONE || fail(tpm, what, code);
}

/* A digest of the size that all have. */
static bool get_digest(struct tpm *tpm, const char *what,
		       u8 ret_digest[TPM_DIGEST_BYTES])
{
	if (get(tpm, 2) != TPM_DIGEST_BYTES ||
	    TPM_DIGEST_BYTES > tpm->end - tpm->at)
		return fail(tpm, what, 0);
	memcpy(ret_digest, tpm->buffer + tpm->at, TPM_DIGEST_BYTES);
	return true;
}

bool tpm_start(struct tpm *tpm)
{
	u32 code;

	begin(tpm, STARTUP, TAG_PLAIN);
	put(tpm, 0, 2); /* as after a loss of power */
	code = talk(tpm);
	return code == ANSWER_DONE || code == ANSWER_STARTED ||
	       fail(tpm, "Startup", code);
}

static bool open_session(struct tpm *tpm)
{
	const char *what = "StartAuthSession";

	begin(tpm, START_AUTH_SESSION, TAG_PLAIN);
	put(tpm, HANDLE_NULL, 4);
	put(tpm, HANDLE_NULL, 4);
	/* A policy without a secret needs no nonce that is one. */
	put(tpm, NONCE_BYTES, 2);
	put(tpm, 0, 8);
	put(tpm, 0, 8);
	put(tpm, 0, 2);
	put(tpm, SESSION_POLICY, 1);
	put(tpm, ALG_NULL, 2);
	put(tpm, ALG_SHA256, 2);
	if (!done(tpm, what))
		return false;
	tpm->session = (u32)get(tpm, 4);
	return tpm->session || fail(tpm, what, 0);
}

/* Before each use: what the session has shown ends with a use, and adds up. */
static bool show_pcrs(struct tpm *tpm)
{
	begin(tpm, POLICY_RESTART, TAG_PLAIN);
	put(tpm, tpm->session, 4);
	if (!done(tpm, "PolicyRestart"))
		return false;
	begin(tpm, POLICY_PCR, TAG_PLAIN);
	put(tpm, tpm->session, 4);
	put(tpm, 0, 2);
	put_pcrs(tpm, PCRS);
	return done(tpm, "PolicyPCR");
}

static bool read_policy(struct tpm *tpm, u8 ret_policy[TPM_DIGEST_BYTES])
{
	const char *what = "PolicyGetDigest";

	begin(tpm, POLICY_GET_DIGEST, TAG_PLAIN);
	put(tpm, tpm->session, 4);
	return done(tpm, what) && get_digest(tpm, what, ret_policy);
}

static bool make_root(struct tpm *tpm, const u8 policy[TPM_DIGEST_BYTES])
{
	const char *what = "CreatePrimary";

	begin(tpm, CREATE_PRIMARY, TAG_SESSIONS);
	put(tpm, HANDLE_OWNER, 4);
	put_session(tpm, HANDLE_PASSWORD);
	put(tpm, 4, 2); /* no secret of ours, no data */
	put(tpm, 0, 4);
	put(tpm, 2 + 2 + 4 + 2 + TPM_DIGEST_BYTES + 4 + 2, 2);
	put(tpm, ALG_KEYEDHASH, 2);
	put(tpm, ALG_SHA256, 2);
	put(tpm, ROOT_ATTRIBUTES, 4);
	put(tpm, TPM_DIGEST_BYTES, 2);
	memcpy(tpm->command + tpm->at, policy, TPM_DIGEST_BYTES);
	tpm->at += TPM_DIGEST_BYTES;
	put(tpm, ALG_HMAC, 2);
	put(tpm, ALG_SHA256, 2);
	put(tpm, 0, 2);
	put(tpm, 0, 2);
	put(tpm, 0, 4);
	if (!done(tpm, what))
		return false;
	tpm->root = (u32)get(tpm, 4);
	return tpm->root || fail(tpm, what, 0);
}

/*
 * Read @count PCRs, in their order. A TPM that does not keep this bank leaves them out
 * of its answer, and of a policy.
 */
static bool read_pcrs(struct tpm *tpm, u32 pcrs, u32 count,
		      u8 (*ret_digest)[TPM_DIGEST_BYTES])
{
	const char *what = "PCR_Read";

	begin(tpm, PCR_READ, TAG_PLAIN);
	put_pcrs(tpm, pcrs);
	if (!done(tpm, what))
		return false;
	(void)get(tpm, 4); /* how often any has changed */
	if (get(tpm, 4) != 1 || get(tpm, 6) != pcr_list(pcrs) ||
	    get(tpm, 4) != count)
		return fail(tpm, what, 0);
	for (u32 i = 0; i < count; i++) {
		if (!get_digest(tpm, what, ret_digest[i]))
			return false;
		tpm->at += TPM_DIGEST_BYTES;
	}
	return true;
}

static bool is_zero(const u8 digest[TPM_DIGEST_BYTES])
{
	static const u8 zeros[TPM_DIGEST_BYTES];

	return !memcmp(digest, zeros, sizeof(zeros));
}

/* PCR 0, 2, 4, 7 and the one that the loader extends. */
static bool check_pcrs(struct tpm *tpm, bool measured)
{
	u8 pcr[PCRS_COUNT][TPM_DIGEST_BYTES];

	if (!read_pcrs(tpm, PCRS, PCRS_COUNT, pcr))
		return false;
	if (measured && (is_zero(pcr[0]) || is_zero(pcr[2])))
		return fail(tpm, "PCR_Read", 0);
	return true;
}

bool tpm_open(struct tpm *tpm, bool measured, u8 ret_policy[TPM_DIGEST_BYTES])
{
	return check_pcrs(tpm, measured) && open_session(tpm) &&
	       show_pcrs(tpm) && read_policy(tpm, ret_policy) &&
	       make_root(tpm, ret_policy);
}

bool tpm_key(struct tpm *tpm, u32 label, u64 number,
	     u8 ret_key[TPM_DIGEST_BYTES])
{
	const char *what = "HMAC";
	bool given;

	if (!show_pcrs(tpm))
		return false;
	begin(tpm, HMAC, TAG_SESSIONS);
	put(tpm, tpm->root, 4);
	put_session(tpm, tpm->session);
	put(tpm, 12, 2);
	put(tpm, label, 4);
	put(tpm, number, 8);
	put(tpm, ALG_NULL, 2);
	given = done(tpm, what);
	(void)get(tpm, 4);
	given = given && get_digest(tpm, what, ret_key);
	memset(tpm->buffer, 0, sizeof(tpm->buffer));
	return given;
}

static bool define_counter(struct tpm *tpm)
{
	begin(tpm, NV_DEFINE_SPACE, TAG_SESSIONS);
	put(tpm, HANDLE_OWNER, 4);
	put_session(tpm, HANDLE_PASSWORD);
	put(tpm, 0, 2);
	put(tpm, 4 + 2 + 4 + 2 + 2, 2);
	put(tpm, COUNTER_INDEX, 4);
	put(tpm, ALG_SHA256, 2);
	put(tpm, COUNTER_ATTRIBUTES, 4);
	put(tpm, 0, 2);
	put(tpm, COUNTER_BYTES, 2);
	return done(tpm, "NV_DefineSpace");
}

static bool increment(struct tpm *tpm)
{
	begin(tpm, NV_INCREMENT, TAG_SESSIONS);
	put(tpm, COUNTER_INDEX, 4);
	put(tpm, COUNTER_INDEX, 4);
	put_session(tpm, HANDLE_PASSWORD);
	return done(tpm, "NV_Increment");
}

static bool read_counter(struct tpm *tpm, u64 *ret_count)
{
	const char *what = "NV_Read";

	begin(tpm, NV_READ, TAG_SESSIONS);
	put(tpm, COUNTER_INDEX, 4);
	put(tpm, COUNTER_INDEX, 4);
	put_session(tpm, HANDLE_PASSWORD);
	put(tpm, COUNTER_BYTES, 2);
	put(tpm, 0, 2);
	if (!done(tpm, what))
		return false;
	(void)get(tpm, 4);
	if (get(tpm, 2) != COUNTER_BYTES || COUNTER_BYTES > tpm->end - tpm->at)
		return fail(tpm, what, 0);
	*ret_count = get(tpm, COUNTER_BYTES);
	return *ret_count || fail(tpm, what, 0);
}

/* Its attributes; 0 = there is none, all ones = it is not what it should be. */
static bool counter_attributes(struct tpm *tpm, u32 *ret_attributes)
{
	const char *what = "NV_ReadPublic";
	u32 code;

	begin(tpm, NV_READ_PUBLIC, TAG_PLAIN);
	put(tpm, COUNTER_INDEX, 4);
	code = talk(tpm);
	*ret_attributes = 0;
	if (code == ANSWER_NO_HANDLE)
		return true;
	if (code != ANSWER_DONE)
		return fail(tpm, what, code);
	(void)get(tpm, 2);
	if (get(tpm, 4) != COUNTER_INDEX || get(tpm, 2) != ALG_SHA256)
		return fail(tpm, what, 0);
	*ret_attributes = (u32)get(tpm, 4);
	/* Else it may be one that goes back, or that only others may write. */
	return (*ret_attributes & ~COUNTER_WRITTEN) == COUNTER_ATTRIBUTES ||
	       fail(tpm, what, 0);
}

bool tpm_counter(struct tpm *tpm, u64 *ret_count)
{
	u32 attributes;

	if (!counter_attributes(tpm, &attributes))
		return false;
	if (!attributes && !define_counter(tpm))
		return false;
	/* It begins above all that this TPM ever had. */
	if (!(attributes & COUNTER_WRITTEN) && !increment(tpm))
		return false;
	return read_counter(tpm, ret_count);
}

bool tpm_count(struct tpm *tpm, u64 count)
{
	u64 now;

	if (!increment(tpm) || !read_counter(tpm, &now))
		return false;
	return now == count + 1 || fail(tpm, "NV_Increment", 0);
}

static void flush(struct tpm *tpm, u32 handle)
{
	begin(tpm, FLUSH_CONTEXT, TAG_PLAIN);
	put(tpm, handle, 4);
	(void)talk(tpm);
}

/* Handles that stay would be in the next user's way. */
void tpm_forget(struct tpm *tpm)
{
	if (tpm->root)
		flush(tpm, tpm->root);
	if (tpm->session)
		flush(tpm, tpm->session);
	tpm->root = tpm->session = 0;
}

static bool extend(struct tpm *tpm)
{
	begin(tpm, PCR_EXTEND, TAG_SESSIONS);
	put(tpm, PCR_CLOSE, 4);
	put_session(tpm, HANDLE_PASSWORD);
	put(tpm, 1, 4);
	put(tpm, ALG_SHA256, 2);
	for (u32 i = 0; i < TPM_DIGEST_BYTES / 8; i++)
		put(tpm, REM_TRUST_MAGIC, 8);
	return done(tpm, "PCR_Extend");
}

/*
 * The policy fails when the PCR has changed, so look whether it has. The answer to that
 * also overwrites the one that had a key, which a TPM with a buffer in memory would leave
 * there.
 */
bool tpm_close(struct tpm *tpm)
{
	u8 before[1][TPM_DIGEST_BYTES], after[1][TPM_DIGEST_BYTES];
	bool closed;

	tpm->failed = NULL;
	closed = read_pcrs(tpm, 1u << PCR_CLOSE, 1, before);
	closed = extend(tpm) && closed;
	tpm_forget(tpm);
	closed = read_pcrs(tpm, 1u << PCR_CLOSE, 1, after) && closed;
	if (closed && !memcmp(before, after, sizeof(before)))
		return fail(tpm, "PCR_Extend", 0);
	return closed;
}
