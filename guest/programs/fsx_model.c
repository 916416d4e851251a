// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The operations of rem-fsx, and what a file is after them; see fsx_model.h. */
#include "fsx_model.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

#define OP_BYTES_MAX (64UL << 10)

const char *const fsx_names[FSX_KINDS] = {
	"read",	  "mapread", "direct-read", "write",	 "mapwrite",
	"dsync",  "direct",  "truncate",    "punch",	 "allocate",
	"zero",	  "copy",    "clone",	    "collapse",	 "insert",
	"reopen", "forget",  "fsync",	    "fdatasync", "syncfs",
};

/* How often each is chosen, in relation to the others. */
static const unsigned int weights[FSX_KINDS] = {
	[FSX_READ] = 8,	     [FSX_MAPREAD] = 5,	  [FSX_DIRECT_READ] = 2,
	[FSX_WRITE] = 20,    [FSX_MAPWRITE] = 10, [FSX_DSYNC] = 4,
	[FSX_DIRECT] = 3,    [FSX_TRUNCATE] = 4,  [FSX_PUNCH] = 3,
	[FSX_ALLOCATE] = 3,  [FSX_ZERO] = 3,	  [FSX_COPY] = 3,
	[FSX_CLONE] = 2,     [FSX_COLLAPSE] = 1,  [FSX_INSERT] = 1,
	[FSX_REOPEN] = 2,    [FSX_FORGET] = 2,	  [FSX_FSYNC] = 12,
	[FSX_FDATASYNC] = 8, [FSX_SYNCFS] = 1,
};

void fsx_begin(struct fsx_model *model, uint64_t seed, size_t most,
	       const char *lacks)
{
	char *words = strdup(lacks), *rest = words, *word;

	if (most < 2 * OP_BYTES_MAX || most % FSX_BLOCK_BYTES)
		check_fail("--bytes %zu: a multiple of %lu, at least %lu", most,
			   FSX_BLOCK_BYTES, 2 * OP_BYTES_MAX);
	*model = (struct fsx_model){ .seed = seed, .most = most };
	model->content = calloc(1, most + FSX_BLOCK_BYTES);
	if (!model->content || !words)
		check_fail("out of memory");
	while ((word = strsep(&rest, ","))) {
		int kind = 0;

		while (*word && kind < FSX_KINDS &&
		       strcmp(word, fsx_names[kind]))
			kind++;
		if (kind == FSX_KINDS)
			check_fail("--lacks %s: there is no such operation",
				   word);
		if (*word)
			model->lacks[kind] = true;
	}
	free(words);
}

static enum fsx_kind draw_kind(const struct fsx_model *model, uint64_t number)
{
	unsigned int sum = 0;
	int kind;

	for (kind = 0; kind < FSX_KINDS; kind++)
		sum += model->lacks[kind] ? 0 : weights[kind];
	number %= sum;
	for (kind = 0; model->lacks[kind] || number >= weights[kind]; kind++)
		number -= model->lacks[kind] ? 0 : weights[kind];
	return kind;
}

static size_t down(size_t bytes)
{
	return bytes / FSX_BLOCK_BYTES * FSX_BLOCK_BYTES;
}

/* Within the file, and not behind its end. */
static void clip_to_size(const struct fsx_model *model, struct fsx_op *op)
{
	if (op->at >= model->size)
		op->at = model->size ? op->at % model->size : 0;
	if (op->bytes > model->size - op->at)
		op->bytes = model->size - op->at;
}

static void clip_to_most(const struct fsx_model *model, struct fsx_op *op)
{
	op->at %= model->most;
	if (op->bytes > model->most - op->at)
		op->bytes = model->most - op->at;
}

/* Whole blocks of @op, none of them behind the last one of the file. */
static void clip_source(const struct fsx_model *model, struct fsx_op *op,
			size_t unit)
{
	op->from = model->size ? op->from % model->size / unit * unit : 0;
	if (op->bytes > model->size - op->from)
		op->bytes = (model->size - op->from) / unit * unit;
	/* The two do not overlap. */
	if (op->from + op->bytes > op->at && op->at + op->bytes > op->from)
		op->bytes = op->from > op->at ? op->from - op->at :
						op->at - op->from;
	op->bytes = op->bytes / unit * unit;
}

static void clip(const struct fsx_model *model, struct fsx_op *op)
{
	switch (op->kind) {
	case FSX_READ:
	case FSX_MAPREAD:
	case FSX_MAPWRITE:
	case FSX_PUNCH:
		clip_to_size(model, op);
		break;
	case FSX_DIRECT_READ:
		op->at = down(op->at % model->most);
		op->bytes = down(op->bytes) + FSX_BLOCK_BYTES;
		break;
	case FSX_DIRECT:
		op->at = down(op->at % model->most);
		op->bytes = down(op->bytes) + FSX_BLOCK_BYTES;
		clip_to_most(model, op);
		break;
	case FSX_COPY:
		clip_to_most(model, op);
		clip_source(model, op, 1);
		break;
	case FSX_CLONE:
		op->at = down(op->at % model->most);
		op->bytes = down(op->bytes) + FSX_BLOCK_BYTES;
		clip_to_most(model, op);
		clip_source(model, op, FSX_BLOCK_BYTES);
		break;
	case FSX_COLLAPSE:
		op->at = down(model->size ? op->at % model->size : 0);
		op->bytes = down(op->bytes) + FSX_BLOCK_BYTES;
		/* Not up to the end: that is a truncation. */
		if (op->at + op->bytes >= model->size)
			op->bytes = 0;
		break;
	case FSX_INSERT:
		op->at = down(model->size ? op->at % model->size : 0);
		op->bytes = down(op->bytes) + FSX_BLOCK_BYTES;
		if (op->at >= model->size ||
		    op->bytes > model->most - model->size)
			op->bytes = 0;
		break;
	default:
		clip_to_most(model, op);
	}
}

struct fsx_op fsx_draw(const struct fsx_model *model)
{
	uint64_t number = check_mix(model->seed) ^ (model->done << 20);
	uint64_t length = check_mix(number + 2);
	struct fsx_op op = {
		.kind = draw_kind(model, check_mix(number)),
		.flag = check_mix(number + 1) & 1,
		/* Many short ones, and some long ones. */
		.bytes = 1 + length % (length >> 60 ? 6000 : OP_BYTES_MAX),
		.at = check_mix(number + 3) % model->most,
		.from = check_mix(number + 4) % model->most,
		.fill = check_mix(number + 5),
	};

	if (model->must_sync)
		op.kind = op.flag ? FSX_FSYNC : FSX_FDATASYNC;
	/* Every other write is within the file or at its end. */
	if (op.fill & 1 && op.at > model->size)
		op.at = op.fill & 2 ? model->size : op.at % (model->size + 1);
	clip(model, &op);
	return op;
}

static struct fsx_range grow(struct fsx_model *model, const struct fsx_op *op)
{
	if (op->bytes && op->at + op->bytes > model->size)
		model->size = op->at + op->bytes;
	return (struct fsx_range){ op->at, op->at + op->bytes };
}

static struct fsx_range truncated(struct fsx_model *model, size_t size)
{
	struct fsx_range range = { size, size };

	if (size < model->size) {
		memset(model->content + size, 0, model->size - size);
		range.end = model->size;
	}
	model->size = size;
	return range;
}

static struct fsx_range zeroed(struct fsx_model *model, const struct fsx_op *op)
{
	memset(model->content + op->at, 0, op->bytes);
	if (op->kind == FSX_ZERO && !op->flag)
		return grow(model, op);
	return (struct fsx_range){ op->at, op->at + op->bytes };
}

static struct fsx_range shifted(struct fsx_model *model,
				const struct fsx_op *op)
{
	unsigned char *at = model->content + op->at;
	size_t old = model->size, tail = old - op->at;

	if (!op->bytes)
		return (struct fsx_range){ 0, 0 };
	model->must_sync = true;
	if (op->kind == FSX_COLLAPSE) {
		memmove(at, at + op->bytes, tail - op->bytes);
		memset(model->content + old - op->bytes, 0, op->bytes);
		model->size -= op->bytes;
		return (struct fsx_range){ op->at, old };
	}
	memmove(at + op->bytes, at, tail);
	memset(at, 0, op->bytes);
	model->size += op->bytes;
	return (struct fsx_range){ op->at, model->size };
}

struct fsx_range fsx_apply(struct fsx_model *model, const struct fsx_op *op)
{
	model->done++;
	model->must_sync = false;
	switch (op->kind) {
	case FSX_WRITE:
	case FSX_MAPWRITE:
	case FSX_DSYNC:
	case FSX_DIRECT:
		check_fill(model->content + op->at, op->bytes, op->fill);
		return grow(model, op);
	case FSX_TRUNCATE:
		return truncated(model, op->at);
	case FSX_PUNCH:
	case FSX_ZERO:
		return zeroed(model, op);
	case FSX_ALLOCATE:
		return op->flag ? (struct fsx_range){ 0, 0 } : grow(model, op);
	case FSX_COPY:
	case FSX_CLONE:
		memmove(model->content + op->at, model->content + op->from,
			op->bytes);
		return grow(model, op);
	case FSX_COLLAPSE:
	case FSX_INSERT:
		return shifted(model, op);
	default:
		return (struct fsx_range){ 0, 0 };
	}
}

bool fsx_syncs_all(const struct fsx_op *op)
{
	return op->kind == FSX_FSYNC || op->kind == FSX_FDATASYNC ||
	       op->kind == FSX_SYNCFS;
}

bool fsx_syncs_itself(const struct fsx_op *op)
{
	return op->bytes && (op->kind == FSX_DSYNC ||
			     (op->kind == FSX_MAPWRITE && op->flag));
}
