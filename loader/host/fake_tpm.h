/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A TPM that is a script: it takes each command apart by numbers that are
 * written down here again, refuses what a TPM would refuse, and can answer
 * wrong.
 */
#ifndef LOADER_FAKE_TPM_H
#define LOADER_FAKE_TPM_H

#include <string.h>

#include "../core/tpm.h"

/* Not zero, and not in a key: what the loader must not take for an answer. */
#define GARBAGE 0x5e
#define INDEX 0x01800052u
#define ATTRIBUTES 0x02040014u
#define WRITTEN 0x20000000u
#define PASSWORD 0x40000009u
#define LABEL_IMAGE 0x52454d49u
#define LABEL_NAME 0x52454d4eu
#define SIZE_AT 2u
#define CODE_AT 6u
#define TRIES 250u
#define NEVER UINT32_MAX

/* Answers: part 2, 6.6.2, with handle, session or parameter where there is one.
 */
#define DONE 0u
#define STARTED 0x100u
#define NO_HANDLE 0x18bu
#define NV_UNINITIALIZED 0x14au
#define NV_DEFINED 0x14cu
#define WRONG_VALUE 0x1c4u
#define COMMAND_CODE 0x143u
#define OBJECT_MEMORY 0x902u
#define SESSION_MEMORY 0x903u
#define POLICY 0x126u
#define POLICY_FAIL 0x99du

/* struct bank - what PCR_Read answers, compared to what it was asked */
struct bank {
	const char *what;
	u32 lists;
	u64 keeps, flips; /* bits of a list */
	int digests, digest_bytes;
};

#define ALL 0xffffffffffffull
#define NO_PCR 0xffffff000000ull

static const struct bank kept = { "kept", 1, ALL, 0, 0, 32 };
static const struct bank not_kept[] = {
	{ "no list", 0, ALL, 0, -5, 32 },
	{ "empty list", 1, NO_PCR, 0, -5, 32 },
	{ "empty list, digests", 1, NO_PCR, 0, 0, 32 },
	{ "two lists, it says", 2, ALL, 0, 0, 32 },
	{ "other bank", 1, ALL, 0x000f00000000, 0, 32 },
	{ "longer list", 1, ALL, 0x07000000, 0, 32 },
	{ "no PCR 14", 1, ALL, 0x4000, 0, 32 },
	{ "no PCR 14, nor its digest", 1, ALL, 0x4000, -1, 32 },
	{ "one PCR more", 1, ALL, 0x80, 1, 32 },
	{ "one PCR more, without its digest", 1, ALL, 0x80, 0, 32 },
	{ "other PCR", 1, ALL, 0xc000, 0, 32 },
	{ "no digest", 1, ALL, 0, -5, 32 },
	{ "one digest less", 1, ALL, 0, -1, 32 },
	{ "one digest more", 1, ALL, 0, 1, 32 },
	{ "SHA-1", 1, ALL, 0, 0, 20 },
	{ "shorter digests", 1, ALL, 0, 0, 31 },
	{ "longer digests", 1, ALL, 0, 0, 33 },
	{ "empty digests", 1, ALL, 0, 0, 0 },
};

/*
 * struct facts - of a TPM, as it comes up
 * @bank: what it does after @reads_kept reads
 * @extended: bytes of PCR 14 that are others when it has been extended
 */
struct facts {
	u32 startup; /* answer */
	bool has_counter, measured;
	const struct bank *bank;
	u32 reads_kept, zero_pcrs, extended;
	u32 index, name_alg, attributes; /* of the counter */
	u64 count, first, step;		 /* now, when it is made, and then */
	u32 count_bytes, policy_bytes, key_bytes;
	u32 session, root; /* handles */
	bool keeps_handles;
};

static const struct facts good = {
	.has_counter = true,
	.measured = true,
	.bank = &kept,
	.extended = UINT32_MAX,
	.index = INDEX,
	.name_alg = 0x000b,
	.attributes = ATTRIBUTES | WRITTEN,
	.count = 0x01020304050607,
	.first = 0xf1020304050607,
	.step = 1,
	.count_bytes = 8,
	.policy_bytes = 32,
	.key_bytes = 32,
	.session = 0x03000000,
	.root = 0x80ffffff,
};

/* What is wrong with an answer; @value says how much. */
enum bad {
	BAD_SILENT,  /* there is none */
	BAD_RETURN,  /* of another size than it says: @value bytes come */
	BAD_SIZE,    /* it says that it has @value bytes */
	BAD_CUT,     /* and so it has */
	BAD_CODE,    /* it is @value, and no more */
	BAD_BUSY,    /* it is BUSY(code, times), and then it is right */
	BAD_FOR_GOOD /* there is none any more, or codes from @value up */
};

#define BUSY(code, times) ((code) | (times) << 16)
#define BUSY_FOR_EVER 0xffffu

/* What the policy session has shown. */
enum shown {
	SHOWN_BEFORE, /* whatever it was, it adds up */
	SHOWN_NOTHING,
	SHOWN_PCRS,
};

/*
 * struct fake - a TPM
 * @bad_at: number of the command that is answered wrong; it has this name
 * @asked: how often that was sent
 * @wrong: what is wrong with the first command that is
 */
struct fake {
	struct facts facts;
	bool started, session_open, root_there, closed;
	enum shown shown;
	u8 root_policy[TPM_DIGEST_BYTES];

	u8 command[TPM_BUFFER_BYTES];
	u32 bytes, at;
	const char *name, *wrong;
	u8 hmac[TPM_BUFFER_BYTES]; /* the last command to give a key */
	u32 hmac_bytes;

	u8 answer[TPM_BUFFER_BYTES];
	u32 answer_bytes, commands, keys, reads;

	u32 bad_at;
	enum bad bad;
	u32 bad_value;
	const char *bad_name;
	u32 bad_needs, bad_bytes, asked, pauses;
};

static struct fake fake;
static struct tpm tpm;

static u64 number_at(const u8 *at, u32 bytes)
{
	u64 value = 0;

	for (u32 i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static void put_at(u8 *at, u64 value, u32 bytes)
{
	while (bytes--) {
		at[bytes] = (u8)value;
		value >>= 8;
	}
}

static void make_policy(bool closed, u8 policy[TPM_DIGEST_BYTES])
{
	for (u32 i = 0; i < TPM_DIGEST_BYTES; i++)
		policy[i] = (u8)(i + (closed ? 3 : 17));
}

/* By a root of @policy. All bytes are large: GARBAGE is none of them. */
static void make_key(const u8 policy[TPM_DIGEST_BYTES], u64 label, u64 number,
		     u8 key[TPM_DIGEST_BYTES])
{
	for (u32 i = 0; i < TPM_DIGEST_BYTES; i++)
		key[i] = (u8)(0x80 |
			      (i * 5 + policy[i] + label * 11 + number * 7));
}

static bool wrong(struct fake *f, const char *what)
{
	if (!f->wrong)
		f->wrong = what;
	return false;
}

/* The next @bytes of the command are @value. */
static bool is(struct fake *f, u64 value, u32 bytes, const char *what)
{
	if (bytes > f->bytes - f->at)
		return wrong(f, what);
	f->at += bytes;
	return number_at(f->command + f->at - bytes, bytes) == value ||
	       wrong(f, what);
}

static u32 digit(char c)
{
	return (u32)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* The same for bytes as text, with spaces between fields. */
static bool is_hex(struct fake *f, const char *hex, const char *what)
{
	for (; *hex; hex += 2) {
		hex += *hex == ' ';
		if (!is(f, digit(hex[0]) << 4 | digit(hex[1]), 1, what))
			return false;
	}
	return true;
}

static u64 take(struct fake *f, u32 bytes)
{
	if (bytes > f->bytes - f->at) {
		wrong(f, "a parameter is missing");
		return 0;
	}
	f->at += bytes;
	return number_at(f->command + f->at - bytes, bytes);
}

static bool ends(struct fake *f)
{
	return f->at == f->bytes || wrong(f, "bytes are left");
}

/* The area of the one session: size, handle, nonce, attributes, secret. */
static bool is_session(struct fake *f, u32 handle)
{
	return is(f, 9, 4, "size of the sessions") &&
	       is(f, handle, 4, "session") && is_hex(f, "0000", "nonce") &&
	       is(f, handle == PASSWORD ? 0 : 1, 1, "session's attributes") &&
	       is_hex(f, "0000", "secret");
}

static void give(struct fake *f, u64 value, u32 bytes)
{
	put_at(f->answer + f->answer_bytes, value, bytes);
	f->answer_bytes += bytes;
}

static void give_bytes(struct fake *f, const u8 *from, u32 bytes)
{
	memcpy(f->answer + f->answer_bytes, from, bytes);
	f->answer_bytes += bytes;
}

/* A digest of @bytes, of which @from has the first ones. */
static void give_digest(struct fake *f, const u8 *from, u32 bytes)
{
	u8 digest[2 * TPM_DIGEST_BYTES];

	memcpy(digest, from, TPM_DIGEST_BYTES);
	memcpy(digest + TPM_DIGEST_BYTES, from, TPM_DIGEST_BYTES);
	give(f, bytes, 2);
	give_bytes(f, digest, bytes);
}

static u32 on_startup(struct fake *f)
{
	if (!is_hex(f, "0000", "type of the start") || !ends(f))
		return WRONG_VALUE;
	f->started = true;
	return f->facts.startup;
}

static u32 on_read_public(struct fake *f)
{
	static const u8 name[34];

	if (!is(f, INDEX, 4, "index") || !ends(f))
		return WRONG_VALUE;
	if (!f->facts.has_counter)
		return NO_HANDLE;
	give(f, 14, 2);
	give(f, f->facts.index, 4);
	give(f, f->facts.name_alg, 2);
	give(f, f->facts.attributes, 4);
	give(f, 0, 2);
	give(f, 8, 2);
	give(f, sizeof(name), 2);
	give_bytes(f, name, sizeof(name));
	return DONE;
}

static u32 on_define(struct fake *f)
{
	if (!is(f, 0x40000001, 4, "owner") || !is_session(f, PASSWORD) ||
	    !is_hex(f, "0000 000e 01800052 000b 02040014 0000 0008",
		    "public area of the counter") ||
	    !ends(f))
		return WRONG_VALUE;
	if (f->facts.has_counter)
		return NV_DEFINED;
	f->facts.has_counter = true;
	f->facts.attributes = ATTRIBUTES;
	return DONE;
}

static u32 on_increment(struct fake *f)
{
	if (!is(f, INDEX, 4, "index") || !is(f, INDEX, 4, "index") ||
	    !is_session(f, PASSWORD) || !ends(f))
		return WRONG_VALUE;
	if (!f->facts.has_counter)
		return NO_HANDLE;
	if (f->facts.attributes & WRITTEN)
		f->facts.count += f->facts.step;
	else
		f->facts.count = f->facts.first;
	f->facts.attributes |= WRITTEN;
	return DONE;
}

static u32 on_read(struct fake *f)
{
	if (!is(f, INDEX, 4, "index") || !is(f, INDEX, 4, "index") ||
	    !is_session(f, PASSWORD) ||
	    !is_hex(f, "0008 0000", "size and offset") || !ends(f))
		return WRONG_VALUE;
	if (!f->facts.has_counter)
		return NO_HANDLE;
	if (!(f->facts.attributes & WRITTEN))
		return NV_UNINITIALIZED;
	give(f, f->facts.count_bytes, 2);
	give(f, f->facts.count, f->facts.count_bytes);
	return DONE;
}

static u32 on_start_session(struct fake *f)
{
	static const u8 nonce[32];

	if (!is_hex(f,
		    "40000007 40000007 0010 0000000000000000 0000000000000000 "
		    "0000 01 0010 000b",
		    "what the session is to be") ||
	    !ends(f))
		return WRONG_VALUE;
	if (f->session_open && !f->facts.keeps_handles)
		return SESSION_MEMORY;
	f->session_open = true;
	f->shown = SHOWN_BEFORE;
	give(f, f->facts.session, 4);
	give(f, sizeof(nonce), 2);
	give_bytes(f, nonce, sizeof(nonce));
	return DONE;
}

/* The handle of the session that is open. */
static bool is_open_session(struct fake *f)
{
	u32 handle = (u32)take(f, 4);

	return f->session_open && handle == f->facts.session;
}

static u32 on_policy_restart(struct fake *f)
{
	if (!is_open_session(f))
		return NO_HANDLE;
	if (!ends(f))
		return WRONG_VALUE;
	f->shown = SHOWN_NOTHING;
	return DONE;
}

/* A TPM would take it without a restart; then it adds up to another policy. */
static u32 on_policy_pcr(struct fake *f)
{
	if (!is_open_session(f))
		return NO_HANDLE;
	if (!is_hex(f, "0000 00000001 000b 03 954000", "PCRs") || !ends(f))
		return WRONG_VALUE;
	if (f->shown != SHOWN_NOTHING)
		return POLICY;
	f->shown = SHOWN_PCRS;
	return DONE;
}

static u32 on_policy_digest(struct fake *f)
{
	u8 policy[TPM_DIGEST_BYTES];

	if (!is_open_session(f))
		return NO_HANDLE;
	if (!ends(f))
		return WRONG_VALUE;
	if (f->shown != SHOWN_PCRS)
		return POLICY;
	make_policy(f->closed, policy);
	give_digest(f, policy, f->facts.policy_bytes);
	return DONE;
}

static u32 on_create_primary(struct fake *f)
{
	if (!is(f, 0x40000001, 4, "owner") || !is_session(f, PASSWORD) ||
	    !is_hex(f, "0004 0000 0000", "what is secret") ||
	    !is_hex(f, "0030 0008 000b 00040432 0020", "public area"))
		return WRONG_VALUE;
	for (u32 i = 0; i < TPM_DIGEST_BYTES; i++)
		f->root_policy[i] = (u8)take(f, 1);
	if (!is_hex(f, "0005 000b 0000 0000 00000000", "scheme") || !ends(f))
		return WRONG_VALUE;
	if (f->root_there && !f->facts.keeps_handles)
		return OBJECT_MEMORY;
	f->root_there = true;
	give(f, f->facts.root, 4);
	return DONE;
}

/* The policy of the root is that of the session, which then has shown nothing.
 */
static bool policy_holds(struct fake *f)
{
	u8 policy[TPM_DIGEST_BYTES];
	bool shown = f->shown == SHOWN_PCRS;

	make_policy(f->closed, policy);
	f->shown = SHOWN_BEFORE;
	return shown && !memcmp(policy, f->root_policy, sizeof(policy));
}

static u32 on_hmac(struct fake *f)
{
	u8 key[TPM_DIGEST_BYTES];
	u64 label, number;

	memcpy(f->hmac, f->command, f->bytes);
	f->hmac_bytes = f->bytes;
	if (take(f, 4) != f->facts.root || !f->root_there || !f->session_open)
		return NO_HANDLE;
	if (!is_session(f, f->facts.session) ||
	    !is_hex(f, "000c", "size of the text"))
		return WRONG_VALUE;
	label = take(f, 4);
	number = take(f, 8);
	if (!is_hex(f, "0010", "hash") || !ends(f))
		return WRONG_VALUE;
	if (!policy_holds(f))
		return POLICY_FAIL;
	f->keys++;
	make_key(f->root_policy, label, number, key);
	give_digest(f, key, f->facts.key_bytes);
	return DONE;
}

static void read_pcr(const struct fake *f, u32 pcr, u8 value[TPM_DIGEST_BYTES])
{
	for (u32 i = 0; i < TPM_DIGEST_BYTES; i++) {
		value[i] = f->facts.zero_pcrs >> pcr & 1 ? 0 : (u8)(pcr + i);
		if (pcr == 14 && f->closed)
			value[i] ^= (u8)(f->facts.extended >> i & 1);
	}
}

static u32 on_pcr_read(struct fake *f)
{
	static const u32 pcrs[] = { 0, 2, 4, 7, 14, 15 };
	const struct bank *bank =
		f->reads++ < f->facts.reads_kept ? &kept : f->facts.bank;
	u8 value[TPM_DIGEST_BYTES];
	u64 list;
	u32 first, end;

	if (!is_hex(f, "00000001", "lists of PCRs"))
		return WRONG_VALUE;
	list = take(f, 6);
	if ((list != 0x000b03954000 && list != 0x000b03004000) || !ends(f)) {
		wrong(f, "PCRs");
		return WRONG_VALUE;
	}
	first = list & 0x950000 ? 0 : 4;
	end = (u32)(5 + bank->digests) > first && bank->digests > -5 ?
		      (u32)(5 + bank->digests) :
		      first;
	give(f, 0x1234, 4);
	give(f, bank->lists, 4);
	if (bank->lists)
		give(f, (list & bank->keeps) ^ bank->flips, 6);
	give(f, end - first, 4);
	for (u32 i = first; i < end; i++) {
		read_pcr(f, pcrs[i], value);
		give_digest(f, value, (u32)bank->digest_bytes);
	}
	return DONE;
}

static u32 on_extend(struct fake *f)
{
	if (!is(f, 14, 4, "PCR") || !is_session(f, PASSWORD) ||
	    !is_hex(f, "00000001 000b", "digests"))
		return WRONG_VALUE;
	for (u32 i = 0; i < TPM_DIGEST_BYTES / 8; i++)
		if (!is_hex(f, "54535552544d4552", "digest"))
			return WRONG_VALUE;
	if (!ends(f))
		return WRONG_VALUE;
	f->closed = f->facts.extended;
	return DONE;
}

static u32 on_flush(struct fake *f)
{
	u32 handle = (u32)take(f, 4);

	if (!ends(f))
		return WRONG_VALUE;
	if (f->facts.keeps_handles)
		return DONE;
	if (f->root_there && handle == f->facts.root)
		f->root_there = false;
	else if (f->session_open && handle == f->facts.session)
		f->session_open = false;
	else
		return NO_HANDLE;
	return DONE;
}

/*
 * struct handler
 * @handles: bytes of handles in the answer, before the size of its parameters
 * @needs: of an answer, up to the last byte that the loader has a use for
 */
struct handler {
	u32 command, tag, handles, needs;
	const char *name;
	u32 (*run)(struct fake *f);
};

static const struct handler handlers[] = {
	{ 0x144, 0x8001, 0, 10, "Startup", on_startup },
	{ 0x169, 0x8001, 0, 22, "NV_ReadPublic", on_read_public },
	{ 0x12a, 0x8002, 0, 10, "NV_DefineSpace", on_define },
	{ 0x134, 0x8002, 0, 10, "NV_Increment", on_increment },
	{ 0x14e, 0x8002, 0, 24, "NV_Read", on_read },
	{ 0x176, 0x8001, 4, 14, "StartAuthSession", on_start_session },
	{ 0x180, 0x8001, 0, 10, "PolicyRestart", on_policy_restart },
	{ 0x17f, 0x8001, 0, 10, "PolicyPCR", on_policy_pcr },
	{ 0x189, 0x8001, 0, 44, "PolicyGetDigest", on_policy_digest },
	{ 0x131, 0x8002, 4, 14, "CreatePrimary", on_create_primary },
	{ 0x155, 0x8002, 0, 48, "HMAC", on_hmac },
	{ 0x17e, 0x8001, 0, UINT32_MAX, "PCR_Read", on_pcr_read },
	{ 0x182, 0x8002, 0, 10, "PCR_Extend", on_extend },
	{ 0x165, 0x8001, 0, 10, "FlushContext", on_flush },
};

static const struct handler *find_handler(struct fake *f)
{
	u32 tag = (u32)take(f, 2), command;

	is(f, f->bytes, 4, "size of the command");
	command = (u32)take(f, 4);
	for (u32 i = 0; i < GO_COUNT(handlers); i++) {
		if (handlers[i].command != command)
			continue;
		if (handlers[i].tag != tag)
			wrong(f, "tag");
		f->name = handlers[i].name;
		return &handlers[i];
	}
	wrong(f, "unknown command");
	return NULL;
}

/* Before the parameters their size, behind them the session: nonce, attributes.
 */
static void put_areas(struct fake *f, u32 handles)
{
	u32 from = 10 + handles, bytes = f->answer_bytes - from;

	memmove(f->answer + from + 4, f->answer + from, bytes);
	put_at(f->answer + from, bytes, 4);
	f->answer_bytes += 4;
	give(f, 0, 2);
	give(f, 1, 1);
	give(f, 0, 2);
}

static void finish(struct fake *f, u32 tag, u32 code)
{
	put_at(f->answer, tag, 2);
	put_at(f->answer + SIZE_AT, f->answer_bytes, 4);
	put_at(f->answer + CODE_AT, code, 4);
}

static void answer(struct fake *f, const struct handler *handler)
{
	u32 code = COMMAND_CODE;

	f->answer_bytes = 10;
	if (handler)
		code = f->started || handler->command == 0x144 ?
			       handler->run(f) :
			       STARTED;
	if (code != DONE)
		f->answer_bytes = 10;
	else if (handler->tag == 0x8002)
		put_areas(f, handler->handles);
	finish(f, code == DONE ? handler->tag : 0x8001, code);
	if (f->commands != f->bad_at || !handler)
		return;
	f->bad_needs = handler->needs;
	f->bad_bytes = f->answer_bytes;
}

static void answer_code(struct fake *f, u32 code)
{
	f->answer_bytes = 10;
	finish(f, 0x8001, code);
}

/* Returns how many bytes are said to have come. */
static u32 spoil(struct fake *f)
{
	switch (f->bad) {
	case BAD_FOR_GOOD:
		answer_code(f, f->bad_value + f->commands - f->bad_at);
		if (f->bad_value)
			break;
		/* fallthrough */
	case BAD_SILENT:
		f->answer_bytes = 0;
		break;
	case BAD_SIZE:
		put_at(f->answer + SIZE_AT, f->bad_value, 4);
		break;
	case BAD_CUT:
		if (f->answer_bytes > f->bad_value)
			f->answer_bytes = f->bad_value;
		put_at(f->answer + SIZE_AT, f->answer_bytes, 4);
		break;
	case BAD_CODE:
		answer_code(f, f->bad_value);
		break;
	case BAD_RETURN:
		/* One that is too large says so, too. */
		if (f->bad_value > TPM_BUFFER_BYTES)
			put_at(f->answer + SIZE_AT, f->bad_value, 4);
		return f->bad_value;
	case BAD_BUSY:
		break;
	}
	return f->answer_bytes;
}

/* A command that was not done is sent again as it was, after a pause. */
static void count_asked(struct fake *f, const u8 *buffer, u32 bytes)
{
	if (f->asked &&
	    (bytes != f->bytes || memcmp(buffer, f->command, bytes)))
		wrong(f, "not the same again");
	if (tpm.pause && f->pauses != f->asked)
		wrong(f, "pause");
	f->asked++;
}

/* As a TPM whose answer ends where it ends: the rest of the buffer is garbage.
 */
static u32 fake_talk(void *context, u8 *buffer, u32 bytes)
{
	struct fake *f = context;
	const struct handler *handler;
	bool is_bad;
	u32 come;

	if (f->asked == TRIES && f->commands == f->bad_at)
		f->commands++; /* it has been given up */
	is_bad = f->commands == f->bad_at;
	if (is_bad)
		count_asked(f, buffer, bytes);
	f->at = 0;
	f->bytes = bytes <= sizeof(f->command) ? bytes : 0;
	memcpy(f->command, buffer, f->bytes);
	memset(f->answer, GARBAGE, sizeof(f->answer));
	handler = find_handler(f);
	if (is_bad)
		f->bad_name = f->name;
	if (is_bad && f->bad == BAD_BUSY && f->asked <= f->bad_value >> 16) {
		answer_code(f, f->bad_value & 0xffff);
		memcpy(buffer, f->answer, sizeof(f->answer));
		return f->answer_bytes;
	}
	answer(f, handler);
	come = f->answer_bytes;
	if (is_bad || (f->bad == BAD_FOR_GOOD && f->commands > f->bad_at))
		come = spoil(f);
	memset(f->answer + f->answer_bytes, GARBAGE,
	       sizeof(f->answer) - f->answer_bytes);
	memcpy(buffer, f->answer, sizeof(f->answer));
	f->commands++;
	return come;
}

static void fake_pause(void *context)
{
	((struct fake *)context)->pauses++;
}

#endif /* LOADER_FAKE_TPM_H */
