/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which images are authentic. The adversary here can write all of NVRAM: each change
 * gets right checksums, the contexts go along to wherever the header says that they
 * are, and the machine may be one that fits a changed table. Only the key is missing.
 */
#include <stdlib.h>

#include "../../format/rem_text.h"
#include "../core/crc32c.h"
#include "../core/trust.h"
#include "build_record.h"
#include "check.h"

#define REGION_PHYS 0x100000000ull
#define REGION_BYTES 0x40000000ull
#define REGION_END (REGION_PHYS + REGION_BYTES)
#define DRAM_BYTES 0x4000000ull
/* Little NVRAM is behind the contexts, so that few wrong sizes of them fit. */
#define CONTEXTS_PHYS (REGION_END - 0x10000)
#define CONTEXT_BYTES 72u
#define CPUS 2u
#define CONTEXTS_BYTES (CONTEXT_BYTES * CPUS)
#define TEXT_BYTES 4096u
#define RODATA_PAGE 3u /* from the text on */
#define RODATA_BYTES 4096u
#define TEXTS_BYTES (TEXT_BYTES + RODATA_BYTES)
/* Read-only data is the last page of NVRAM, and little fits between text and it. */
#define TEXT_PHYS (REGION_END - RODATA_BYTES - RODATA_PAGE * 4096u)
#define TEXT_BYTES_MAX ((size_t)REM_TEXT_PAGES_MAX * REM_TEXT_PAGE_BYTES)
#define LIFE 7u /* the count of the boot in which the kernel was loaded */
#define ENTRIES 3u
#define BODY_BYTES (REM_BODY_HEADER_BYTES + ENTRIES * 48u)
/* Odd: it is in slot 1, whose end is the end of the buffer. */
#define NEWEST 13u
#define SLOT 1u
#define BODY_AT (REM_BODY_OFFSET + SLOT * REM_BODY_STRIDE_BYTES)
#define COMMIT_AT (REM_COMMIT_OFFSET + SLOT * REM_COMMIT_STRIDE_BYTES)
#define COUNTER 1000u
#define MUTATIONS 1000000u

static u8 *block;
static u8 *contexts;	  /* REM_MAC_CONTEXTS_MAX, of which most is zeros */
static u8 *text, *rodata; /* TEXT_BYTES_MAX, of which most is zeros */
static struct desc machine;
static struct trust trust;
static u8 sealed[BODY_BYTES], saved[CONTEXTS_BYTES], commit[8];
static u8 saved_texts[TEXTS_BYTES];
static unsigned long judged;

/* Bytes that have no pattern that the function could have, too. */
static u8 pattern(u32 i)
{
	return (u8)(i * 7 + 3);
}

/* By Python: hashlib.blake2s(pattern).hexdigest(), and with a key of 5 * i + 1. */
static const struct vector {
	u32 bytes;
	const char *digest, *keyed;
} vectors[] = {
	{ 0, "69217a3079908094e11121d042354a7c1f55b6482ca1a51e1b250dfd1ed0eef9",
	  "743beb24e344bbeecc7f094f92696f636f8e7ba84285d9d588a41d2873737d37" },
	{ 1, "a28ac19d6bcbe2cd1d7de183485768d598e996b07889b9b11f418cb1b4a4fb0d",
	  "6ac12a78abd6b054948a63919c261a868d3a5a81277f872cbad9ae50288ce760" },
	{ 63,
	  "de27df0e375d83c49f1af9ca8270f9f2fe7b70bf800fc01672db0e9746021ebf",
	  "a44653d3db7a0def35003c787137cc39f8f5eb379e22bfa98910c9d854a99a4e" },
	{ 64,
	  "5377e4ff957bda4d4535f4879876b71a61056c4cec31e78397c66ec47a86a130",
	  "00b4e60ead19cb8aea2064c6d7d81b41dd3e55a0ff12e58e338d232625b952d9" },
	{ 65,
	  "19b1b26fba093f4a670d8913e1b71cbb2916dfa701018cc6b05785c966593374",
	  "92c424c740e5717c4258404431ba6f4279e23eb223ef82ec407c5802e2c21ba0" },
	{ 128,
	  "83470c75afa23d90cd7659906e4b47daa278131fbb225241dd37a40fd5355ac7",
	  "ea907d7ffde752c3b3ced5d3322ca7b6a4e209b9534e0939e14cad3e0a59c50c" },
	{ 255,
	  "f0ddb42a1ccb39d2d65d2e0bbb394de770a85d6de4c648ac55c19d355f6983c2",
	  "f2f6fa748032b0f811108c5420f3f46a4b45e9c7aadb30978f289a28ba30d999" },
};

static bool is_hex(const u8 mac[REM_MAC_BYTES], const char *hex)
{
	char digits[2 * REM_MAC_BYTES + 1];

	for (u32 i = 0; i < REM_MAC_BYTES; i++)
		snprintf(digits + 2 * i, 3, "%02x", (unsigned int)mac[i]);
	return !memcmp(digits, hex, sizeof(digits));
}

/* In three parts, the last of which takes what is left, byte by byte if @single. */
static bool gives(const struct vector *vector, const u8 *key, u32 first,
		  u32 second, bool single)
{
	/* Of exactly these bytes, so that ASan sees each one too many. */
	u8 *data = malloc(vector->bytes + 1);
	u8 result[REM_MAC_BYTES];
	struct rem_mac mac;
	u32 at = first + second;

	for (u32 i = 0; i < vector->bytes; i++)
		data[i + 1] = pattern(i);
	rem_mac_begin(&mac, key);
	rem_mac_add(&mac, data + 1, first);
	rem_mac_add(&mac, data + 1 + first, second);
	for (; single && at < vector->bytes; at++)
		rem_mac_add(&mac, data + 1 + at, 1);
	rem_mac_add(&mac, data + 1 + at, vector->bytes - at);
	rem_mac_end(&mac, result);
	free(data);
	return is_hex(result, key ? vector->keyed : vector->digest);
}

static void function_is_blake2s(void)
{
	u8 key[REM_KEY_BYTES];

	for (u32 i = 0; i < REM_KEY_BYTES; i++)
		key[i] = (u8)(i * 5 + 1);
	for (u32 i = 0; i < GO_COUNT(vectors); i++)
		for (u32 keyed = 0; keyed < 2; keyed++) {
			const struct vector *vector = &vectors[i];
			const u8 *by = keyed ? key : NULL;

			CHECK(gives(vector, by, 0, 0, true), "%u single bytes",
			      vector->bytes);
			for (u32 first = 0; first <= vector->bytes; first++)
				CHECK(gives(vector, by, first, 0, false),
				      "%u bytes, the first %u alone",
				      vector->bytes, first);
			for (u32 first = 0; first + 64 <= vector->bytes;
			     first++)
				CHECK(gives(vector, by, first, 64, false),
				      "%u bytes, a block from %u on",
				      vector->bytes, first);
		}
}

static void make_machine(void)
{
	memset(&machine, 0, sizeof(machine));
	desc_add(&machine, REM_DESC_KERNEL, 0, (u64[3]){ 1, 2, 3 }, 3);
	desc_add(&machine, REM_DESC_MEMORY, 0,
		 (u64[3]){ REGION_PHYS, REGION_BYTES, REM_MEMORY_NVRAM }, 3);
	desc_add(&machine, REM_DESC_MEMORY, 1,
		 (u64[3]){ 0, DRAM_BYTES, REM_MEMORY_DRAM }, 3);
	desc_finish(&machine);
}

static void make_trust(void)
{
	trust = (struct trust){
		.state = REM_TRUST_ON,
		.counter = COUNTER,
		.key_id = 0x1122334455667788,
		.measured = 0x99aabbccddeeff00,
	};
	for (u32 i = 0; i < REM_KEY_BYTES; i++)
		trust.key[i] = (u8)(i * 11 + 5);
	for (u32 i = 0; i < REM_KEY_BYTES; i++)
		trust.name[i] = (u8)(i * 13 + 9);
}

static struct rem_body header(void)
{
	struct rem_body body;

	memcpy(&body, block + BODY_AT, sizeof(body));
	return body;
}

static void put_header(const struct rem_body *body)
{
	memcpy(block + BODY_AT, body, sizeof(*body));
	build_reseal(block, SLOT);
}

static void sum_texts(u64 counter, u64 ret_sum[3])
{
	u64 key[REM_TEXT_KEY_WORDS];

	rem_text_key(trust.name, counter, key);
	memset(ret_sum, 0, 3 * sizeof(*ret_sum));
	rem_text_add(ret_sum, key, text, TEXT_BYTES / REM_TEXT_CHUNK_BYTES);
	rem_text_add(ret_sum, key, rodata, RODATA_BYTES / REM_TEXT_CHUNK_BYTES);
	rem_text_reduce(ret_sum);
}

/* What a Stop does when all else of the image is there. */
static void authenticate(const u8 key[REM_KEY_BYTES])
{
	struct rem_body body = header();
	u8 table[REM_MAC_BYTES];
	struct rem_mac mac;
	u64 sum[3];

	sum_texts(body.text_counter, sum);
	rem_mac_table(&body, block + BODY_AT, table);
	rem_mac_begin(&mac, key);
	rem_mac_contexts(&mac, table, &body, contexts);
	rem_mac_text(&mac, &body, sum);
	rem_mac_header(&mac, &body, body.mac);
	put_header(&body);
}

static void make_plain(void)
{
	struct record_image image =
		build_image_of(NEWEST, REGION_PHYS, REGION_BYTES, &machine);
	struct rem_body body;

	memset(block, 0, REM_TIMELINE_OFFSET);
	build_block(block, REGION_BYTES, NEWEST - 1);
	build_image(block, &image);
	body = header();
	body.context_phys = CONTEXTS_PHYS;
	body.context_bytes = CONTEXT_BYTES;
	body.cpu_count = CPUS;
	put_header(&body);
	for (u32 i = 0; i < CONTEXTS_BYTES; i++)
		contexts[i] = pattern(i);
	for (u32 i = 0; i < TEXT_BYTES; i++)
		text[i] = pattern(i / 3);
	for (u32 i = 0; i < RODATA_BYTES; i++)
		rodata[i] = pattern(i / 5);
}

static void name_key(void)
{
	struct rem_body body = header();

	body.key_counter = trust.counter;
	body.key_phys = 0x1000000;
	body.key_id = trust.key_id;
	body.measured = trust.measured;
	put_header(&body);
}

static void name_text(void)
{
	struct rem_body body = header();

	body.text_phys = TEXT_PHYS;
	body.text_pages = TEXT_BYTES / REM_TEXT_PAGE_BYTES;
	body.text_counter = LIFE;
	body.rodata_page = RODATA_PAGE;
	body.rodata_pages = RODATA_BYTES / REM_TEXT_PAGE_BYTES;
	put_header(&body);
}

static void make_authentic(void)
{
	make_plain();
	name_key();
	name_text();
	authenticate(trust.key);
}

static struct trust_text handed_on;

/* As the loader does. */
static u32 judge_by(const struct trust *by, const u8 *contexts_at)
{
	const struct trust_views views = { contexts_at, text, rodata };
	struct decision decision;

	rem_decide(block, REGION_PHYS, REGION_BYTES, &machine, false,
		   &decision);
	if (decision.reason != REM_BOOT_RESUME)
		return decision.reason;
	judged++;
	return rem_trust_judge(by, block, &decision, &views, &handed_on);
}

static u32 judge(void)
{
	return judge_by(&trust, contexts);
}

/* The same in one piece, by the words of rem_mac.h. */
static void what_is_covered_is_as_described(void)
{
	u8 all[REM_MAC_BYTES + CONTEXTS_BYTES + 24 + REM_BODY_HEADER_BYTES];
	u8 *end = all + REM_MAC_BYTES + CONTEXTS_BYTES;
	u8 right[REM_MAC_BYTES];
	struct rem_mac mac;
	u64 sum[3];

	make_authentic();
	sum_texts(LIFE, sum);
	rem_mac_begin(&mac, NULL);
	rem_mac_add(&mac, machine.entry, ENTRIES * 48u);
	rem_mac_end(&mac, all);
	memcpy(all + REM_MAC_BYTES, contexts, CONTEXTS_BYTES);
	memcpy(end, sum, sizeof(sum));
	end += sizeof(sum);
	memcpy(end, block + BODY_AT, REM_BODY_HEADER_BYTES);
	memset(end + 200, 0, REM_MAC_BYTES);
	rem_mac_begin(&mac, trust.key);
	rem_mac_add(&mac, all, sizeof(all));
	rem_mac_end(&mac, right);
	CHECK(!memcmp(block + BODY_AT + 200, right, sizeof(right)), "the MAC");
}

static void authentic_image_is_entered(void)
{
	make_authentic();
	CHECK(judge() == REM_BOOT_RESUME, "reason %u", judge());
}

/* With the policy that memory is trusted. */
static void image_without_text_is_entered(void)
{
	static const struct trust_text none;

	make_plain();
	name_key();
	authenticate(trust.key);
	text[5] ^= 1;
	handed_on.counter = 1;
	CHECK(judge() == REM_BOOT_RESUME, "reason %u", judge());
	CHECK(!memcmp(&handed_on, &none, sizeof(none)), "no sum is handed on");
}

/* Else all is to be summed up again. */
static void sum_is_handed_on(void)
{
	struct trust_text life;
	u64 sum[3];

	make_authentic();
	rem_trust_new_life(&trust, LIFE, &life);
	sum_texts(LIFE, sum);
	CHECK(!life.sum[0] && !life.sum[1] && !life.sum[2], "a new life");
	CHECK(judge() == REM_BOOT_RESUME, "reason %u", judge());
	CHECK(handed_on.counter == LIFE && life.counter == LIFE, "the life");
	CHECK(!memcmp(handed_on.key, life.key, sizeof(life.key)), "its key");
	CHECK(!memcmp(handed_on.sum, sum, sizeof(sum)), "the sum");
	rem_trust_new_life(&trust, LIFE + 1, &life);
	CHECK(memcmp(handed_on.key, life.key, sizeof(life.key)),
	      "another life has another key");
}

/* All that a header without its MAC could say of them. */
static void other_places_of_text_are_forged(void)
{
	const struct {
		u64 phys;
		u32 pages, rodata_page, rodata_pages;
		u64 life;
	} cases[] = {
		{ TEXT_PHYS, 1, RODATA_PAGE, 1, LIFE + 1 },
		{ TEXT_PHYS, 1, RODATA_PAGE - 1, 1, LIFE },
		{ TEXT_PHYS - 4096, 1, RODATA_PAGE, 1, LIFE },
		{ TEXT_PHYS, 2, RODATA_PAGE, 1, LIFE },
		{ 0, 0, 0, 0, 0 },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++) {
		struct rem_body body;

		make_authentic();
		body = header();
		body.text_phys = cases[i].phys;
		body.text_pages = cases[i].pages;
		body.rodata_page = cases[i].rodata_page;
		body.rodata_pages = cases[i].rodata_pages;
		body.text_counter = cases[i].life;
		put_header(&body);
		CHECK(judge() == REM_COLD_FORGED, "text %u: %u", i, judge());
	}
}

static void swapped_texts_are_forged(void)
{
	make_authentic();
	for (u32 i = 0; i < TEXT_BYTES; i++) {
		u8 byte = text[i];

		text[i] = rodata[i];
		rodata[i] = byte;
	}
	CHECK(judge() == REM_COLD_FORGED, "reason %u", judge());
}

static void each_reason_is_given(void)
{
	static const struct {
		u32 state;
		bool authentic;
		u64 counter, key_id, measured; /* more than in the image */
		u8 key;			       /* other bits than its own */
		u32 reason;
	} cases[] = {
		{ REM_TRUST_OFF, false, 0, 0, 0, 0, REM_BOOT_RESUME },
		{ REM_TRUST_ON, false, 0, 0, 0, 0, REM_COLD_NOT_AUTHENTICATED },
		{ REM_TRUST_NO_KEY, false, 0, 0, 0, 0,
		  REM_COLD_NOT_AUTHENTICATED },
		{ REM_TRUST_OFF, true, 0, 0, 0, 0, REM_COLD_TPM_DIFFERS },
		{ REM_TRUST_NO_KEY, true, 0, 0, 0, 0, REM_COLD_TPM_DIFFERS },
		{ 0, false, 0, 0, 0, 0, REM_COLD_NOT_AUTHENTICATED },
		{ 0, true, 0, 0, 0, 0, REM_COLD_TPM_DIFFERS },
		{ REM_TRUST_ON, true, 0, 0, 0, 0, REM_BOOT_RESUME },
		{ REM_TRUST_ON, true, 0, 0, 1, 0, REM_COLD_MEASURED_DIFFERS },
		/* Other measurements make another key. */
		{ REM_TRUST_ON, true, 0, 1, 1, 1, REM_COLD_MEASURED_DIFFERS },
		{ REM_TRUST_ON, true, 0, 1, 0, 0, REM_COLD_TPM_DIFFERS },
		{ REM_TRUST_ON, true, 1, 0, 0, 0, REM_COLD_REPLAYED },
		{ REM_TRUST_ON, true, UINT64_MAX, 0, 0, 0, REM_COLD_REPLAYED },
		{ REM_TRUST_ON, true, 1ull << 32, 0, 0, 0, REM_COLD_REPLAYED },
		{ REM_TRUST_ON, true, 0, 0, 0, 1, REM_COLD_FORGED },
		{ REM_TRUST_ON, true, 0, 0, 0, 0x80, REM_COLD_FORGED },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++) {
		struct trust by = trust;
		u32 reason;

		by.state = cases[i].state;
		by.counter += cases[i].counter;
		by.key_id += cases[i].key_id;
		by.measured += cases[i].measured;
		by.key[i % REM_KEY_BYTES] ^= cases[i].key;
		if (cases[i].authentic)
			make_authentic();
		else
			make_plain();
		reason = judge_by(&by, contexts);
		CHECK(reason == cases[i].reason, "case %u: %u", i, reason);
	}
}

/* A key that nobody has, as a loader without one could have it in its memory. */
static void zeros_are_no_key(void)
{
	static const struct trust none = { .state = REM_TRUST_NO_KEY };
	static const u8 key[REM_KEY_BYTES];
	struct rem_body body;

	make_plain();
	name_key();
	authenticate(key);
	CHECK(judge() == REM_COLD_FORGED, "reason %u", judge());
	CHECK(judge_by(&none, contexts) == REM_COLD_TPM_DIFFERS, "no key");
	body = header();
	body.key_counter = 0;
	put_header(&body);
	authenticate(key);
	CHECK(judge() == REM_COLD_NOT_AUTHENTICATED, "counter 0: %u", judge());
	CHECK(judge_by(&none, contexts) == REM_COLD_NOT_AUTHENTICATED,
	      "counter 0, no key");
}

/* As many contexts as can be in front of the end of NVRAM, with a right MAC. */
static u32 with_contexts(u32 bytes, u32 cpus, const u8 *contexts_at)
{
	struct rem_body body;

	make_plain();
	name_key();
	body = header();
	body.context_phys = REGION_PHYS + REM_BLOCK_BYTES;
	body.context_bytes = bytes;
	body.cpu_count = cpus;
	put_header(&body);
	if (contexts_at)
		authenticate(trust.key);
	return judge_by(&trust, contexts_at);
}

/* Without contexts: who reads them crashes. */
static void impossible_contexts_are_forged(void)
{
	unsigned long before = judged;
	struct decision decision = { .slot = SLOT };
	const struct trust_views none = { NULL, NULL, NULL };

	CHECK(with_contexts(REM_MAC_CONTEXTS_MAX, 1, contexts) ==
		      REM_BOOT_RESUME,
	      "as large as allowed");
	CHECK(with_contexts(REM_MAC_CONTEXTS_MAX + 1, 1, NULL) ==
		      REM_COLD_FORGED,
	      "one byte more");
	CHECK(with_contexts(1, REM_MAC_CONTEXTS_MAX + 1, NULL) ==
		      REM_COLD_FORGED,
	      "one CPU more");
	CHECK(with_contexts(0x8000, 0x4000, NULL) == REM_COLD_FORGED, "many");
	CHECK(judged == before + 4, "the record alone was refused");
	/* More than NVRAM, which rem_decide() refuses: products of 2^32 and more. */
	decision.body = header();
	decision.body.context_bytes = 0x10000;
	decision.body.cpu_count = 0x10000;
	CHECK(rem_trust_judge(&trust, block, &decision, &none, &handed_on) ==
		      REM_COLD_FORGED,
	      "2^32");
	decision.body.context_bytes = UINT32_MAX;
	decision.body.cpu_count = UINT32_MAX;
	CHECK(rem_trust_judge(&trust, block, &decision, &none, &handed_on) ==
		      REM_COLD_FORGED,
	      "nearly 2^64");
}

static void save(void)
{
	make_authentic();
	memcpy(sealed, block + BODY_AT, BODY_BYTES);
	memcpy(commit, block + COMMIT_AT, sizeof(commit));
	memcpy(saved, contexts, CONTEXTS_BYTES);
	memcpy(saved_texts, text, TEXT_BYTES);
	memcpy(saved_texts + TEXT_BYTES, rodata, RODATA_BYTES);
}

static void restore(void)
{
	memcpy(block + BODY_AT, sealed, BODY_BYTES);
	memcpy(block + COMMIT_AT, commit, sizeof(commit));
	memcpy(contexts, saved, CONTEXTS_BYTES);
	memcpy(text, saved_texts, TEXT_BYTES);
	memcpy(rodata, saved_texts + TEXT_BYTES, RODATA_BYTES);
}

static bool changed(void)
{
	return memcmp(block + BODY_AT, sealed, BODY_BYTES) ||
	       memcmp(contexts, saved, CONTEXTS_BYTES) ||
	       memcmp(text, saved_texts, TEXT_BYTES) ||
	       memcmp(rodata, saved_texts + TEXT_BYTES, RODATA_BYTES);
}

#define COVERED_BYTES (BODY_BYTES + CONTEXTS_BYTES + TEXTS_BYTES)

/* The byte of what is covered, or the MAC itself: body, contexts, text, read-only data. */
static u8 *covered(u32 at)
{
	if (at < BODY_BYTES)
		return block + BODY_AT + at;
	at -= BODY_BYTES;
	if (at < CONTEXTS_BYTES)
		return contexts + at;
	at -= CONTEXTS_BYTES;
	return at < TEXT_BYTES ? text + at : rodata + (at - TEXT_BYTES);
}

static bool in_field(u32 at, size_t field, size_t bytes)
{
	return at >= field && at < field + bytes;
}

#define IN(at, field)                                  \
	in_field(at, offsetof(struct rem_body, field), \
		 sizeof(((struct rem_body *)NULL)->field))

static void check_flip(u32 at, u32 bit)
{
	bool mac_only = IN(at, mac) || at >= BODY_BYTES;
	u32 reason;

	*covered(at) ^= (u8)(1u << bit);
	build_reseal(block, SLOT);
	reason = judge();
	/* This checksum alone is made right again by that. */
	if (IN(at, header_crc))
		CHECK(!changed() && reason == REM_BOOT_RESUME, "header_crc");
	else
		CHECK(changed() && reason != REM_BOOT_RESUME,
		      "byte %u bit %u entered", at, bit);
	if (mac_only)
		CHECK(reason == REM_COLD_FORGED, "byte %u bit %u: %u", at, bit,
		      reason);
	restore();
}

/* The table is changed, and this is a machine that it describes. */
static void check_moved(u32 at, u32 bit)
{
	u8 *part = (u8 *)machine.entry + (at - REM_BODY_HEADER_BYTES);

	*part ^= (u8)(1u << bit);
	check_flip(at, bit);
	*part ^= (u8)(1u << bit);
}

static void no_bit_flip_is_entered(void)
{
	unsigned long before = judged;

	save();
	for (u32 at = 0; at < COVERED_BYTES; at++)
		for (u32 bit = 0; bit < 8; bit++)
			check_flip(at, bit);
	CHECK(judged - before >
		      8 * (CONTEXTS_BYTES + TEXTS_BYTES + REM_MAC_BYTES),
	      "%lu flips were judged by the MAC", judged - before);
	before = judged;
	for (u32 at = REM_BODY_HEADER_BYTES; at < BODY_BYTES; at++)
		for (u32 bit = 0; bit < 8; bit++)
			check_moved(at, bit);
	CHECK(judged > before, "no table was judged by the MAC");
	CHECK(judge() == REM_BOOT_RESUME, "flips were undone");
}

static u64 random_word(void)
{
	static u64 state = 0x9e3779b97f4a7c15;

	return check_random(&state);
}

/* Anywhere or, if @quiet, where only the MAC can tell: times, contexts, text. */
static u32 random_place(bool quiet)
{
	u32 times = offsetof(struct rem_body, realtime_ns);
	u32 times_bytes = offsetof(struct rem_body, desc_offset) - times;
	u32 any = (u32)(random_word() >> 32);

	if (!quiet)
		return any % COVERED_BYTES;
	/* As many texts as the rest, which is smaller. */
	if (any % 2)
		return BODY_BYTES + CONTEXTS_BYTES + (any >> 1) % TEXTS_BYTES;
	any = (any >> 1) % (times_bytes + CONTEXTS_BYTES);
	return any < times_bytes ? times + any :
				   BODY_BYTES + (any - times_bytes);
}

static void no_random_change_is_entered(void)
{
	unsigned long before = judged;

	save();
	for (u32 i = 0; i < MUTATIONS; i++) {
		u32 count = 2 + (u32)(random_word() >> 32) % 7, reason;

		while (count--)
			*covered(random_place(i % 2)) ^=
				(u8)(random_word() >> 32);
		build_reseal(block, SLOT);
		reason = judge();
		CHECK((reason == REM_BOOT_RESUME) == !changed(),
		      "mutation %u: %u", i, reason);
		restore();
	}
	CHECK(judged - before > MUTATIONS / 2,
	      "only %lu were judged by the MAC", judged - before);
}

void test_trust(void)
{
	crc32c_init(true);
	/* Exactly the bytes that may be read. */
	block = malloc(REM_TIMELINE_OFFSET);
	contexts = calloc(1, REM_MAC_CONTEXTS_MAX);
	text = calloc(1, TEXT_BYTES_MAX);
	rodata = calloc(1, TEXT_BYTES_MAX);
	make_machine();
	make_trust();
	function_is_blake2s();
	what_is_covered_is_as_described();
	authentic_image_is_entered();
	image_without_text_is_entered();
	sum_is_handed_on();
	other_places_of_text_are_forged();
	swapped_texts_are_forged();
	each_reason_is_given();
	zeros_are_no_key();
	impossible_contexts_are_forged();
	no_bit_flip_is_entered();
	no_random_change_is_entered();
	free(rodata);
	free(text);
	free(contexts);
	free(block);
}
