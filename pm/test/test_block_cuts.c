// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: transactions are atomic and durable at each cut, in any sequence.
 * Method: a sequence of transactions over the recorder; each image that a cut
 * may leave is opened and must have the last acknowledged state or the next.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"

#define IMAGES_MAX 200
#define STEPS_MAX 12

/* One transaction: blocks_write()'s arguments; @scrub: scrub instead. */
struct step {
	rem_u32 first, count, seed;
	bool scrub;
};

struct trial {
	const char *name;
	struct blocks_seen seen[STEPS_MAX + 1]; /* by number of steps */
	int done;
	int steps;
	unsigned long images;
};

static void judge(rem_u8 *image, void *context)
{
	struct trial *trial = context;
	struct blocks_seen seen;
	struct pm_block block;
	int err = blocks_image_see(image, &seen, &block);
	bool before, after;

	trial->images++;
	PROMISE("does-not-open", !err, "%s, step %d: %d", trial->name,
		trial->done, err);
	if (err)
		return;
	before = !memcmp(&seen, &trial->seen[trial->done], sizeof(seen));
	after = trial->done < trial->steps &&
		!memcmp(&seen, &trial->seen[trial->done + 1], sizeof(seen));
	PROMISE("not-atomic", before || after,
		"%s, step %d: neither before nor after", trial->name,
		trial->done);
	PROMISE("damaged", !block.mismatches, "%s: a cut looks like damage",
		trial->name);
	err = blocks_image_see(image, &seen, &block);
	PROMISE("not-stable", !err && !block.repaired && !block.replayed,
		"%s, step %d: not clean when opened twice", trial->name,
		trial->done);
}

static void cut(struct pm_env *env, void *context)
{
	struct trial *trial = context;

	recorder_cut(env, judge, trial);
}

static int act(struct blocks *blocks, const struct step *step)
{
	int err = 0;

	if (!step->scrub)
		return blocks_write(blocks, step->first, step->count,
				    step->seed);
	for (rem_u64 i = 0; i < blocks->block.header.blocks && !err; i++)
		err = pm_block_scrub(&blocks->block, i);
	return err;
}

static void setup(struct blocks *blocks)
{
	blocks_make(blocks);
	CHECK(!blocks_write(blocks, 0, TX_MAX, 11), "setup");
	CHECK(!blocks_write(blocks, 8, 1, 12), "setup");
}

static void try(const char *name, const struct step *step, int steps)
{
	struct trial trial = { .name = name, .steps = steps };
	struct blocks blocks;

	setup(&blocks);
	blocks_see(&blocks.block, &trial.seen[0]);
	for (int i = 0; i < steps; i++) {
		CHECK(!act(&blocks, &step[i]), "%s, step %d", name, i);
		blocks_see(&blocks.block, &trial.seen[i + 1]);
	}
	blocks_free(&blocks);
	setup(&blocks);
	blocks.env->before_fence = cut;
	blocks.env->context = &trial;
	recorder_begin(blocks.env, IMAGES_MAX, 9);
	for (; trial.done < steps; trial.done++) {
		act(&blocks, &step[trial.done]);
		blocks.env->expected++;
	}
	cut(blocks.env, &trial);
	recorder_end(blocks.env);
	CHECK(trial.images > 4, "%s: only %lu images", name, trial.images);
	blocks_free(&blocks);
}

static void judge_format(rem_u8 *image, void *context)
{
	struct blocks_seen seen;
	int err = blocks_image_see(image, &seen, NULL);

	PROMISE("not-atomic", !err || err == -ENOMEDIUM, "format: %d", err);
	for (rem_u32 i = 0; !err && i < seen.count; i++)
		PROMISE("not-atomic", !seen.err[i], "format: block %u: %d", i,
			seen.err[i]);
	(*(int *)context)++;
}

static void cut_format(struct pm_env *env, void *context)
{
	recorder_cut(env, judge_format, context);
}

static void format_never_shows_half(void)
{
	struct pm_block_format format = { .segment_bytes = BLOCKS_BYTES,
					  .block_bytes = BLOCK,
					  .lanes = 2,
					  .lane_entries = TX_MAX };
	struct pm_env *env = recorder_new(BLOCKS_BYTES);
	int images = 0;

	memcpy(format.uuid, blocks_uuid, sizeof(format.uuid));
	env->before_fence = cut_format;
	env->context = &images;
	recorder_begin(env, IMAGES_MAX, 3);
	CHECK(!pm_block_format(env, env->memory, &format), "format");
	recorder_end(env);
	CHECK(images > 100, "only %d images", images);
	recorder_free(env);
}

void test_block_cuts(void)
{
	static const struct step one[] = { { 3, 1, 21, false } };
	static const struct step fresh[] = { { 9, 1, 21, false } };
	static const struct step hole[] = { { 3, 1, 0, false } };
	static const struct step many[] = { { 2, 5, 22, false } };
	static const struct step holes[] = { { 2, 5, 0, false } };
	static const struct step scrub[] = { { 3, 1, 21, false },
					     { .scrub = true } };
	static const struct step row[] = {
		{ 3, 1, 31, false }, { 3, 1, 32, false }, { 2, 5, 33, false },
		{ 2, 1, 0, false },  { 0, 6, 34, false }, { 1, 1, 35, false },
		{ 4, 3, 0, false },  { 4, 1, 36, false }, { 0, 6, 37, false },
		{ 0, 2, 38, false },
	};

	try("one block", one, 1);
	try("a new block", fresh, 1);
	try("a hole", hole, 1);
	try("many blocks", many, 1);
	try("many holes", holes, 1);
	try("scrub", scrub, 2);
	try("a sequence", row, 10);
	format_never_shows_half();
}
