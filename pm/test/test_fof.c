// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: what was acknowledged after the platform has withdrawn its promise to save
 * caches is on media, and so is all that was acknowledged before, as soon as anything
 * is acknowledged after it; also where the promise ends in the middle of a store, or
 * comes back.
 * Method: two writers follow the rules of core/fof.h over memory that records. The
 * promise changes at each of the moments at which anybody asks for it; while one
 * writer settles, the other tries to acknowledge.
 */
#include "../core/fof.h"
#include "check.h"
#include "recorder.h"

#define WORDS 6
#define ASKED_MAX 40
#define PLACE_BYTES 64

static struct pm_env *env;
static bool promised;
static unsigned int asked,
	change_at[2];	       /* where the promise ends, where it returns */
static rem_u64 due[WORDS * 2]; /* what media must have; 0: nothing */
static bool second_writes;     /* while the first one settles */
static struct pm_fof fof;

static bool ask(void)
{
	asked++;
	if (asked == change_at[0])
		promised = false;
	if (asked == change_at[1])
		promised = true;
	return promised;
}

static rem_u8 *place(unsigned int word)
{
	return env->memory + word * PLACE_BYTES;
}

/* As the kernel's pm_copy(). */
static void store(unsigned int word, rem_u64 value)
{
	bool stays = pm_fof_kept(&fof);

	pm_store64(env, place(word), value);
	if (!stays || !pm_fof_kept(&fof))
		pm_flush(env, place(word), sizeof(value));
}

static void judge(rem_u8 *image, void *context)
{
	unsigned int acknowledged = *(unsigned int *)context;

	for (unsigned int word = 0; word < WORDS * 2; word++) {
		rem_u64 found;

		memcpy(&found, image + word * PLACE_BYTES, sizeof(found));
		PROMISE("lost", !due[word] || found == due[word],
			"word %u is lost, %u was acknowledged without a promise",
			word, acknowledged);
	}
}

/* As the kernel's pm_fence(); whether the caller need not wait for another. */
static bool acknowledge(unsigned int word, bool settles)
{
	bool before = promised;
	bool stays = pm_fof_kept(&fof);

	if (!stays && !pm_fof_settled(&fof)) {
		if (!settles)
			return false;
		pm_fof_settle(&fof);
	}
	due[word] = word + 1;
	if (!stays)
		pm_fence(env);
	if (!promised && !(before && stays))
		recorder_cut(env, judge, &word);
	return true;
}

/* Of the first writer's settling: before anything of it is on media. */
static void write_back(void)
{
	static unsigned int second;

	if (second_writes) {
		rem_u64 kept[WORDS * 2];

		memcpy(kept, due, sizeof(kept));
		store(WORDS + second % WORDS, WORDS + second % WORDS + 1);
		PROMISE("acknowledged-too-early",
			!acknowledge(WORDS + second % WORDS, false) || promised,
			"acknowledged while the caches are being written back");
		second++;
		/* It waits for us. */
		memcpy(due, kept, sizeof(kept));
	}
	pm_flush(env, env->memory, env->bytes);
	pm_fence(env);
}

static void run(unsigned int ends, unsigned int returns, bool both)
{
	env = recorder_new(WORDS * 2 * PLACE_BYTES);
	fof = (struct pm_fof){ .promised = ask,
			       .write_back = write_back,
			       .unsettled = true };
	promised = true;
	asked = 0;
	change_at[0] = ends;
	change_at[1] = returns;
	second_writes = both;
	memset(due, 0, sizeof(due));
	recorder_begin(env, 200, 1);
	for (unsigned int word = 0; word < WORDS; word++) {
		store(word, word + 1);
		CHECK(acknowledge(word, true), "nobody else settles");
	}
	/* The promise ends for good, as seen by somebody who comes later. */
	promised = false;
	change_at[1] = 0;
	store(WORDS, WORDS + 1);
	CHECK(acknowledge(WORDS, true), "nobody else settles");
	recorder_free(env);
}

void test_fof(void)
{
	for (unsigned int ends = 1; ends < ASKED_MAX; ends++) {
		run(ends, 0, false);
		run(ends, 0, true);
		for (unsigned int returns = ends + 1; returns < ends + 9;
		     returns++)
			run(ends, returns, true);
	}
}
