// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Goal: transactions are atomic and durable at each cut, in any sequence.
 * Method: a sequence of transactions over the recorder; each image that a cut
 * may leave is opened and must have the last acknowledged state or the next. The
 * segment is closed and opened between them, too. And a kernel dies at each flush
 * and fence of a transaction, the caches survive it (a kexec), the next kernel opens what it
 * sees there and writes: what was acknowledged holds at each cut from then on.
 */
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "need.h"

#define IMAGES_MAX 200
#define STEPS_MAX 12

/* One transaction: blocks_write()'s arguments; or something else instead. */
struct step {
	rem_u32 first, count, seed;
	enum { WRITE, SCRUB, OPEN } what;
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

	if (step->what == OPEN)
		return blocks_open(blocks);
	if (step->what == WRITE)
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

static int format_blocks(struct pm_env *env)
{
	struct pm_block_format format = { .segment_bytes = BLOCKS_BYTES,
					  .block_bytes = BLOCK,
					  .lanes = 2,
					  .lane_entries = TX_MAX };

	memcpy(format.uuid, blocks_uuid, sizeof(format.uuid));
	return pm_block_format(env, env->memory, &format);
}

#define SECOND_FIRST 2 /* the block and number of blocks of the second write */
#define SECOND_COUNT 3

struct death {
	const char *name;
	struct blocks_seen before, after; /* of the write after it */
	unsigned long images;
};

static void judge_after_death(rem_u8 *image, void *context)
{
	struct death *death = context;
	struct blocks_seen seen;
	int err = blocks_image_see(image, &seen, NULL);

	death->images++;
	PROMISE("does-not-open", !err, "%s, then another kernel: %d",
		death->name, err);
	PROMISE("not-atomic",
		err || !memcmp(&seen, &death->before, sizeof(seen)) ||
			!memcmp(&seen, &death->after, sizeof(seen)),
		"%s, then another kernel: neither before nor after",
		death->name);
}

static void cut_after_death(struct pm_env *env, void *context)
{
	recorder_cut(env, judge_after_death, context);
}

struct last_step {
	struct blocks *blocks;
	const struct step *step;
};

static void act_last(void *context)
{
	const struct last_step *last = context;

	act(last->blocks, last->step);
}

/* What the next kernel makes of what it sees, without and with its own write. */
static void foresee(struct death *death, const struct blocks *blocks)
{
	struct pm_env env = { .memory = blocks->env->memory,
			      .bytes = BLOCKS_BYTES };
	struct blocks other = { .env = &env };

	env.memory = need(aligned_alloc(4096, BLOCKS_BYTES));
	memcpy(env.memory, blocks->env->memory, BLOCKS_BYTES);
	CHECK(!blocks_open(&other), "%s: open", death->name);
	blocks_see(&other.block, &death->before);
	CHECK(!blocks_write(&other, SECOND_FIRST, SECOND_COUNT, 77), "write");
	blocks_see(&other.block, &death->after);
	free(env.memory);
	free(other.volatile_memory);
}

/* Caches survive the kernel, and what it had not flushed is still in them. */
static bool caches_survive(const char *name, const struct step *step, int steps)
{
	struct death death = { .name = name };
	struct blocks blocks;
	struct last_step last = { .blocks = &blocks, .step = step };
	bool died;

	setup(&blocks);
	recorder_begin(blocks.env, IMAGES_MAX, 9);
	died = recorder_dies(blocks.env, steps, act_last, &last);
	foresee(&death, &blocks);
	CHECK(!blocks_open(&blocks), "%s: open", name);
	blocks.env->before_fence = cut_after_death;
	blocks.env->context = &death;
	blocks.env->expected++;
	CHECK(!blocks_write(&blocks, SECOND_FIRST, SECOND_COUNT, 77), "write");
	cut_after_death(blocks.env, &death);
	recorder_end(blocks.env);
	CHECK(death.images > 4, "%s: only %lu images", name, death.images);
	blocks_free(&blocks);
	return died;
}

static void each_death(const char *name, const struct step *step)
{
	int steps = 0;

	while (caches_survive(name, step, steps))
		steps++;
	CHECK(steps > 2, "%s: only %d flushes and fences", name, steps);
}

void test_block_cuts(void)
{
	static const struct step one[] = { { 3, 1, 21, WRITE } };
	static const struct step fresh[] = { { 9, 1, 21, WRITE } };
	static const struct step hole[] = { { 3, 1, 0, WRITE } };
	static const struct step many[] = { { 2, 5, 22, WRITE } };
	static const struct step holes[] = { { 2, 5, 0, WRITE } };
	static const struct step scrub[] = { { 3, 1, 21, WRITE },
					     { .what = SCRUB } };
	/* Opening begins with lane 0, which was used last. */
	static const struct step again[] = {
		{ .what = OPEN },    { 2, 5, 22, WRITE }, { .what = OPEN },
		{ 1, 4, 23, WRITE }, { .what = OPEN },	  { 3, 1, 24, WRITE },
		{ .what = OPEN },    { 0, 6, 25, WRITE },
	};
	static const struct step row[] = {
		{ 3, 1, 31, WRITE }, { 3, 1, 32, WRITE }, { 2, 5, 33, WRITE },
		{ 2, 1, 0, WRITE },  { 0, 6, 34, WRITE }, { 1, 1, 35, WRITE },
		{ 4, 3, 0, WRITE },  { 4, 1, 36, WRITE }, { 0, 6, 37, WRITE },
		{ 0, 2, 38, WRITE },
	};

	try("one block", one, 1);
	try("a new block", fresh, 1);
	try("a hole", hole, 1);
	try("many blocks", many, 1);
	try("many holes", holes, 1);
	try("scrub", scrub, 2);
	try("opened again", again, 8);
	try("a sequence", row, 10);
	each_death("one block", one);
	each_death("a hole", hole);
	each_death("many blocks", many);
	recorder_each_cut(BLOCKS_BYTES, IMAGES_MAX, format_blocks,
			  judge_format);
}
