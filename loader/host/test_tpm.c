/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the loader asks of a TPM, by a TPM that is a script and can answer
 * wrong. */
#include "check.h"
#include "fake_tpm.h"

/* struct talked - what the loader has of its conversation */
struct talked {
	u64 counter;
	u8 policy[TPM_DIGEST_BYTES], name[TPM_DIGEST_BYTES];
	u8 key[TPM_DIGEST_BYTES], next[TPM_DIGEST_BYTES];
};

static void power_on(const struct facts *facts)
{
	memset(&fake, 0, sizeof(fake));
	fake.facts = *facts;
	fake.bad_at = NEVER;
	memset(&tpm, 0, sizeof(tpm));
	memset(tpm.buffer, GARBAGE, sizeof(tpm.buffer));
	tpm.talk = fake_talk;
	tpm.pause = fake_pause;
	tpm.context = &fake;
}

static bool open_tpm(struct talked *talked)
{
	return tpm_open(&tpm, fake.facts.measured, talked->policy);
}

/* In the loader's order. */
static bool talk_for_keys(struct talked *talked)
{
	return tpm_start(&tpm) && tpm_counter(&tpm, &talked->counter) &&
	       open_tpm(talked) && tpm_key(&tpm, LABEL_NAME, 0, talked->name) &&
	       tpm_key(&tpm, LABEL_IMAGE, talked->counter, talked->key) &&
	       tpm_key(&tpm, LABEL_IMAGE, talked->counter + 1, talked->next);
}

static bool talk_before_kernel(struct talked *talked)
{
	return talk_for_keys(talked) && tpm_close(&tpm) &&
	       tpm_count(&tpm, talked->counter);
}

static bool is_key(const u8 key[TPM_DIGEST_BYTES], u32 label, u64 number)
{
	u8 policy[TPM_DIGEST_BYTES], right[TPM_DIGEST_BYTES];

	make_policy(false, policy);
	make_key(policy, label, number, right);
	return !memcmp(key, right, sizeof(right));
}

/* No byte of any key: they are all large. */
static bool buffer_has_key(void)
{
	for (u32 i = 0; i < sizeof(tpm.buffer); i++)
		if (tpm.buffer[i] & 0x80)
			return true;
	return false;
}

/* Neither the TPM nor the loader has one. */
static bool no_handle_is_left(void)
{
	return !fake.session_open && !fake.root_there && !tpm.session &&
	       !tpm.root;
}

static void check_keys(const struct talked *talked, u64 counter,
		       const char *what)
{
	CHECK(talked->counter == counter, "%s: counter", what);
	CHECK(is_key(talked->name, LABEL_NAME, 0) &&
		      is_key(talked->key, LABEL_IMAGE, counter) &&
		      is_key(talked->next, LABEL_IMAGE, counter + 1),
	      "%s: keys", what);
}

static void check_good(const struct facts *facts, const char *what)
{
	struct talked talked = { .counter = 0 };
	u8 policy[TPM_DIGEST_BYTES];
	u64 counter = facts->has_counter && facts->attributes & WRITTEN ?
			      facts->count :
			      facts->first;

	power_on(facts);
	make_policy(false, policy);
	CHECK(talk_before_kernel(&talked), "%s: %s answers %x", what,
	      tpm.failed, tpm.code);
	CHECK(!fake.wrong, "%s: %s: wrong %s", what, fake.name, fake.wrong);
	CHECK(!tpm.failed && !tpm.code, "%s: failed", what);
	check_keys(&talked, counter, what);
	CHECK(fake.facts.count == counter + 1, "%s: count", what);
	CHECK(!memcmp(talked.policy, policy, sizeof(policy)), "%s: policy",
	      what);
	CHECK(fake.keys == 3 && fake.closed, "%s: closed", what);
	CHECK(no_handle_is_left(), "%s: handles are left", what);
}

static void good_tpm_gives_keys(void)
{
	struct facts facts = good;

	check_good(&facts, "started by the loader");
	facts.startup = STARTED;
	check_good(&facts, "started by firmware");
	facts.has_counter = false;
	check_good(&facts, "no counter");
	facts.has_counter = true;
	facts.attributes = ATTRIBUTES;
	check_good(&facts, "no count");
	facts.attributes |= WRITTEN;
	facts.count = UINT64_MAX - 1;
	check_good(&facts, "counts up to the end");
}

static void no_key_is_left_in_the_buffer(void)
{
	struct talked talked;

	power_on(&good);
	CHECK(tpm_start(&tpm) && open_tpm(&talked), "open");
	for (u64 number = 0; number < 128; number++) {
		CHECK(tpm_key(&tpm, LABEL_IMAGE, number, talked.key) &&
			      is_key(talked.key, LABEL_IMAGE, number),
		      "key %u", (u32)number);
		CHECK(!buffer_has_key(), "key %u is left", (u32)number);
	}
}

/* The fake itself, else its order proves nothing. */
static u32 hmac_again(void)
{
	u8 buffer[TPM_BUFFER_BYTES];

	memcpy(buffer, fake.hmac, sizeof(buffer));
	fake_talk(&fake, buffer, fake.hmac_bytes);
	return (u32)number_at(buffer + CODE_AT, 4);
}

static void key_needs_its_policy_each_time(void)
{
	struct talked talked = { .counter = 0 };

	power_on(&good);
	CHECK(tpm_start(&tpm) && open_tpm(&talked) &&
		      tpm_key(&tpm, LABEL_NAME, 0, talked.name),
	      "a key");
	CHECK(hmac_again() == POLICY_FAIL, "the same without a policy");
	CHECK(tpm_key(&tpm, LABEL_NAME, 0, talked.name), "the key again");
}

static void closed_tpm_gives_no_key(void)
{
	struct talked talked = { .counter = 0 };
	struct facts facts = good;
	u32 session, root;

	for (u32 keeps = 0; keeps < 2; keeps++) {
		facts.keeps_handles = keeps;
		power_on(&facts);
		CHECK(tpm_start(&tpm) && open_tpm(&talked) &&
			      tpm_key(&tpm, LABEL_NAME, 0, talked.name),
		      "a key");
		session = tpm.session;
		root = tpm.root;
		CHECK(tpm_close(&tpm), "close");
		CHECK(!tpm_key(&tpm, LABEL_NAME, 0, talked.key), "closed");
		tpm.session = session;
		tpm.root = root;
		tpm.failed = NULL;
		CHECK(!tpm_key(&tpm, LABEL_NAME, 0, talked.key), "closed");
		/* Even if nothing was flushed, the measurements are others. */
		if (keeps)
			CHECK(!strcmp(tpm.failed, "HMAC") &&
				      tpm.code == POLICY_FAIL,
			      "%s answers %x", tpm.failed, tpm.code);
		CHECK(hmac_again() != DONE && fake.keys == 1, "%u keys",
		      fake.keys);
		/* A new root is by the new measurements, and has other keys. */
		CHECK(open_tpm(&talked) &&
			      tpm_key(&tpm, LABEL_NAME, 0, talked.key) &&
			      memcmp(talked.key, talked.name,
				     sizeof(talked.key)),
		      "opened again");
	}
}

static void check_failed(const char *name, u32 code, const char *what, u32 n)
{
	CHECK(tpm.failed && !strcmp(tpm.failed, name), "%s %u: %s, not %s",
	      what, n, tpm.failed ? tpm.failed : "none", name);
	CHECK(tpm.code == code, "%s %u: code %x", what, n, tpm.code);
	CHECK(!fake.wrong, "%s %u: %s: wrong %s", what, n, fake.name,
	      fake.wrong);
}

/* A conversation of @facts in which the @n-th answer is @bad; false if it is
 * shorter. */
static bool talk_badly(const struct facts *facts, u32 n, enum bad bad,
		       u32 value, bool *ret_done)
{
	struct talked talked = { .counter = 0 };

	power_on(facts);
	fake.bad_at = n;
	fake.bad = bad;
	fake.bad_value = value;
	*ret_done = talk_before_kernel(&talked);
	return fake.bad_name;
}

static bool is_flush(void)
{
	return !strcmp(fake.bad_name, "FlushContext");
}

static void check_bad(const struct facts *facts, u32 n, enum bad bad, u32 value,
		      u32 code)
{
	bool done;

	if (!talk_badly(facts, n, bad, value, &done))
		return;
	/* What is not flushed is of no use to anybody then. */
	CHECK(done == is_flush(), "answer %u bad by %u, %x, and done", n, bad,
	      value);
	if (is_flush())
		CHECK(!tpm.failed, "answer %u: a flush is named", n);
	else
		check_failed(fake.bad_name, code, "answer", n);
	CHECK(strcmp(fake.bad_name, "HMAC") || !buffer_has_key(),
	      "answer %u bad by %u, %x: a key is left", n, bad, value);
}

static void check_bad_sizes(const struct facts *facts, u32 n, u32 bytes)
{
	check_bad(facts, n, BAD_SIZE, 0, 0);
	check_bad(facts, n, BAD_SIZE, 9, 0);
	check_bad(facts, n, BAD_SIZE, bytes - 1, 0);
	check_bad(facts, n, BAD_SIZE, bytes + 1, 0);
	check_bad(facts, n, BAD_SIZE, bytes | 1u << 16, 0);
	check_bad(facts, n, BAD_SIZE, bytes << 8, 0);
	check_bad(facts, n, BAD_SIZE, TPM_BUFFER_BYTES, 0);
	check_bad(facts, n, BAD_SIZE, UINT32_MAX, 0);
	for (u32 come = 1; come < bytes; come++)
		check_bad(facts, n, BAD_RETURN, come, 0);
	check_bad(facts, n, BAD_RETURN, bytes + 1, 0);
	check_bad(facts, n, BAD_RETURN, TPM_BUFFER_BYTES, 0);
	check_bad(facts, n, BAD_RETURN, TPM_BUFFER_BYTES + 1, 0);
	check_bad(facts, n, BAD_RETURN, UINT32_MAX, 0);
}

/* An answer that ends early, and says so. */
static void check_cuts(const struct facts *facts, u32 n, u32 bytes, u32 needs)
{
	for (u32 cut = 1; cut < bytes && cut < needs; cut++)
		check_bad(facts, n, BAD_CUT, cut, 0);
}

static void check_codes(const struct facts *facts, u32 n, bool first)
{
	static const u32 codes[] = {
		0x101,
		0x984,
		0x99d,
		0x1c4,
		0x143,
		0x80000000,
		1,
		0x18c,
		0x28b,
		0xfffffffe,
		/* What is not busy: bits of its codes, codes beside them. */
		0x900,
		0x907,
		0x909,
		0x90b,
		0x910,
		0x921,
		0x923,
		0x108,
		0x122,
		0x988,
		0x10908,
	};

	for (u32 i = 0; i < GO_COUNT(codes); i++)
		check_bad(facts, n, BAD_CODE, codes[i], codes[i]);
	/* One that was started already is one only at the start. */
	if (!first)
		check_bad(facts, n, BAD_CODE, STARTED, STARTED);
	/* And no handle is no failure only where it is requested. */
	if (strcmp(fake.bad_name, "NV_ReadPublic"))
		check_bad(facts, n, BAD_CODE, NO_HANDLE, NO_HANDLE);
}

/* It does nothing any more. tpm_close() goes on then, and names its first
 * failure. */
static void check_dead(const struct facts *facts, u32 n, u32 code)
{
	bool done;

	talk_badly(facts, n, BAD_FOR_GOOD, code, &done);
	CHECK(!done, "dead from %u on, and done", n);
	/* Each answer of the dead has another code. */
	if (is_flush())
		check_failed("PCR_Read", tpm.code, "dead", n);
	else
		check_failed(fake.bad_name, code, "dead", n);
}

/* Returns how many answers there are. */
static u32 check_each_answer(const struct facts *facts)
{
	bool done;
	u32 n;

	for (n = 0; talk_badly(facts, n, BAD_SILENT, 0, &done); n++) {
		u32 bytes = fake.bad_bytes, needs = fake.bad_needs;

		check_bad(facts, n, BAD_SILENT, 0, 0);
		check_bad_sizes(facts, n, bytes);
		check_cuts(facts, n, bytes, needs);
		check_codes(facts, n, !n);
		check_dead(facts, n, 0);
		check_dead(facts, n, 0x984);
	}
	CHECK(done, "no answer is bad");
	return n;
}

static void bad_answers_are_failures(void)
{
	struct facts facts = good;
	u32 answers = check_each_answer(&facts);

	facts.has_counter = false;
	CHECK(answers == 25, "%u answers", answers);
	CHECK(check_each_answer(&facts) == answers + 2,
	      "the counter is made, and counts");
}

static void check_refused(const struct facts *facts, const char *name,
			  const char *what, u32 n)
{
	struct talked talked = { .counter = 0 };

	power_on(facts);
	CHECK(!talk_before_kernel(&talked), "%s %u is done", what, n);
	check_failed(name, 0, what, n);
}

static void other_counter_is_refused(void)
{
	struct facts facts;

	for (u32 bit = 0; bit < 32; bit++) {
		facts = good;
		facts.attributes ^= 1u << bit;
		if (1u << bit != WRITTEN)
			check_refused(&facts, "NV_ReadPublic", "attribute",
				      bit);
		facts = good;
		facts.index ^= 1u << bit;
		check_refused(&facts, "NV_ReadPublic", "index", bit);
		facts = good;
		facts.name_alg ^= 1u << bit % 16;
		check_refused(&facts, "NV_ReadPublic", "algorithm", bit);
	}
	facts = good;
	facts.attributes = 0;
	check_refused(&facts, "NV_ReadPublic", "no attributes", 0);
	facts.attributes = UINT32_MAX;
	check_refused(&facts, "NV_ReadPublic", "all attributes", 0);
}

static void broken_counter_is_refused(void)
{
	static const u64 steps[] = {
		0, 2, 257, UINT64_MAX, 1ull << 63, UINT64_MAX - 0xff
	};
	static const u32 sizes[] = { 0, 1, 4, 7, 9, 16 };
	struct facts facts = good;

	for (u32 i = 0; i < GO_COUNT(steps); i++) {
		facts.count = 1ull << 63;
		facts.step = steps[i];
		/* It is back at zero, which no counter has. */
		check_refused(&facts,
			      facts.count + facts.step ? "NV_Increment" :
							 "NV_Read",
			      "step", i);
	}
	facts = good;
	for (u32 i = 0; i < GO_COUNT(sizes); i++) {
		facts.count_bytes = sizes[i];
		check_refused(&facts, "NV_Read", "counter of bytes", sizes[i]);
	}
	facts = good;
	facts.count = UINT64_MAX;
	check_refused(&facts, "NV_Read", "no number is left", 0);
	facts.count = 0;
	check_refused(&facts, "NV_Read", "zero", 0);
	facts.has_counter = false;
	facts.first = 0;
	check_refused(&facts, "NV_Read", "zero at first", 0);
}

static void other_digest_is_refused(void)
{
	for (u32 bytes = 0; bytes <= 2 * TPM_DIGEST_BYTES; bytes++) {
		struct facts facts = good;

		if (bytes == TPM_DIGEST_BYTES)
			continue;
		facts.policy_bytes = bytes;
		check_refused(&facts, "PolicyGetDigest", "policy of bytes",
			      bytes);
		facts = good;
		facts.key_bytes = bytes;
		check_refused(&facts, "HMAC", "key of bytes", bytes);
		CHECK(!buffer_has_key(), "key of %u bytes is left", bytes);
	}
}

static void zero_is_no_handle(void)
{
	struct facts facts = good;

	facts.session = 0;
	check_refused(&facts, "StartAuthSession", "session", 0);
	facts = good;
	facts.root = 0;
	check_refused(&facts, "CreatePrimary", "root", 0);
}

static void check_busy(u32 n, u32 code)
{
	static const u32 times[] = { 1, 2, TRIES - 1 };
	bool done;

	for (u32 i = 0; i < GO_COUNT(times); i++) {
		talk_badly(&good, n, BAD_BUSY, BUSY(code, times[i]), &done);
		CHECK(done && !tpm.failed && fake.keys == 3,
		      "answer %u busy by %x, and %s failed", n, code,
		      tpm.failed);
		CHECK(!fake.wrong, "answer %u busy by %x: wrong %s", n, code,
		      fake.wrong);
		CHECK(fake.asked == times[i] + 1 && fake.pauses == times[i],
		      "busy %u times: asked %u, %u pauses", times[i],
		      fake.asked, fake.pauses);
	}
	check_bad(&good, n, BAD_BUSY, BUSY(code, TRIES), code);
	check_bad(&good, n, BAD_BUSY, BUSY(code, BUSY_FOR_EVER), code);
	CHECK(fake.asked == TRIES && fake.pauses == TRIES - 1,
	      "busy for ever: asked %u, %u pauses", fake.asked, fake.pauses);
}

static void busy_tpm_is_asked_again(void)
{
	static const u32 codes[] = { 0x908, 0x90a, 0x920, 0x922 };
	struct talked talked;
	bool done;

	for (u32 n = 0; talk_badly(&good, n, BAD_SILENT, 0, &done); n++)
		for (u32 i = 0; i < GO_COUNT(codes); i++)
			check_busy(n, codes[i]);
	power_on(&good);
	fake.bad_at = 0;
	fake.bad = BAD_BUSY;
	fake.bad_value = BUSY(0x922u, 2u);
	tpm.pause = NULL;
	CHECK(talk_before_kernel(&talked) && fake.asked == 3, "no pause");
}

/* In tpm_open(), and in tpm_close() before and after it extends. */
static void bank_that_is_not_kept_is_refused(void)
{
	for (u32 i = 0; i < 3 * GO_COUNT(not_kept); i++) {
		struct facts facts = good;

		facts.bank = &not_kept[i / 3];
		facts.reads_kept = i % 3;
		check_refused(&facts, "PCR_Read", facts.bank->what, i % 3);
		CHECK(fake.keys == (i % 3 ? 3 : 0) && no_handle_is_left(),
		      "%s: %u keys, or handles are left", facts.bank->what,
		      fake.keys);
	}
}

static void zero_is_no_measurement(void)
{
	for (u32 i = 0; i < 48; i++) {
		struct facts facts = good;

		facts.measured = i % 2;
		facts.zero_pcrs = 1u << i / 2;
		if (facts.measured && (i / 2 == 0 || i / 2 == 4))
			check_refused(&facts, "PCR_Read", "zero PCR", i / 2);
		else
			check_good(&facts, "other zero PCR");
		facts.measured = false;
		facts.zero_pcrs = UINT32_MAX;
		check_good(&facts, "all PCRs zero");
	}
}

static void closed_is_what_has_changed(void)
{
	struct facts facts = good;

	for (u32 bit = 0; bit < TPM_DIGEST_BYTES; bit++) {
		facts.extended = 1u << bit;
		check_good(&facts, "a byte of PCR 14 is another");
	}
	facts.extended = 0;
	check_refused(&facts, "PCR_Extend", "PCR 14 stays", 0);
	CHECK(no_handle_is_left(), "handles are left");
}

/* From the n-th command of tpm_close() on; what failed before it is nobody's
 * concern. */
static void close_names_its_first_failure(void)
{
	/* A flush that fails is none: what is not flushed is of no use then. */
	static const char *const names[] = { "PCR_Read", "PCR_Extend",
					     "PCR_Read", "PCR_Read",
					     "PCR_Read" };
	struct talked talked;

	for (u32 n = 0; n < GO_COUNT(names); n++) {
		power_on(&good);
		CHECK(talk_for_keys(&talked), "keys");
		tpm.failed = "before";
		tpm.code = 1;
		fake.bad_at = fake.commands + n;
		fake.bad = BAD_FOR_GOOD;
		fake.bad_value = 0x984;
		CHECK(!tpm_close(&tpm), "close %u", n);
		check_failed(names[n], tpm.code, "close", n);
		CHECK(!tpm.session && !tpm.root, "close %u: handles", n);
		/* No other answer is long enough to overwrite a key. */
		CHECK(fake.reads == 3 && !strcmp(fake.name, "PCR_Read"),
		      "close %u ends with %s", n, fake.name);
	}
}

/* Each command before tpm_close() is too much at first; the TPM has room for
 * one user. */
static void forgotten_tpm_opens_again(void)
{
	struct talked talked = { .counter = 0 };
	bool done;
	u32 n, sent;

	for (n = 0; talk_badly(&good, n, BAD_BUSY, BUSY(0x922u, BUSY_FOR_EVER),
			       &done) &&
		    fake.keys < 3;
	     n++) {
		fake.bad_at = NEVER;
		tpm_forget(&tpm);
		check_failed(fake.bad_name, 0x922, "forgotten", n);
		CHECK(no_handle_is_left(), "%u: handles are left", n);
		sent = fake.commands;
		tpm_forget(&tpm);
		CHECK(fake.commands == sent, "%u: forgotten twice", n);
		tpm.failed = NULL;
		CHECK(talk_for_keys(&talked), "%u: not again: %s", n,
		      tpm.failed);
		check_keys(&talked, good.count, "again");
	}
	CHECK(n == 18, "%u commands", n);
	power_on(&good);
	CHECK(talk_for_keys(&talked), "keys");
	CHECK(!open_tpm(&talked) && tpm.code == SESSION_MEMORY, "room for two");
	fake.bad_at = fake.commands;
	fake.bad = BAD_FOR_GOOD;
	tpm_forget(&tpm);
	CHECK(!tpm.session && !tpm.root, "a dead TPM is not forgotten");
}

void test_tpm(void)
{
	good_tpm_gives_keys();
	no_key_is_left_in_the_buffer();
	key_needs_its_policy_each_time();
	closed_tpm_gives_no_key();
	bad_answers_are_failures();
	other_counter_is_refused();
	broken_counter_is_refused();
	other_digest_is_refused();
	zero_is_no_handle();
	busy_tpm_is_asked_again();
	bank_that_is_not_kept_is_refused();
	zero_is_no_measurement();
	closed_is_what_has_changed();
	close_names_its_first_failure();
	forgotten_tpm_opens_again();
}
