// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * pm-judge DIR REGION BYTES [LIMIT [SEED]]: judges each cut of a recorded guest
 * in which work.c was at work. In each window of the recording, before each
 * fence behind a store to the region, and where an operation has returned, each
 * image that a cut may leave (caches.h; of many, LIMIT that are drawn) is opened
 * by the core, as a boot would, and must be as it was promised after the last
 * operation that had returned or, until that one returns, after the next.
 *
 * One line of JSON for each window. Exit status 4: the recording is not one, or
 * not whole: it has no window, or ends or is damaged inside one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../core/region.h"
#include "caches.h"
#include "promise.h"
#include "recording.h"
#include "state.h"

#define LIMIT 48
#define PROMISES_MAX 4096

struct judge {
	struct caches caches;
	struct recording recording;
	rem_u64 promise; /* where its line is in the region, or 0 */
	uint64_t digest[PROMISES_MAX]; /* of each operation of the window */
	uint64_t first, last;	       /* operations that have one */
	uint64_t done, broken;
	unsigned long limit, places, violations;
	bool acknowledged; /* the last thing was that an operation returned */
	char shown[200];
};

static void violation(struct judge *judge, const char *what, long value)
{
	if (!judge->violations++)
		snprintf(judge->shown, sizeof(judge->shown),
			 "%s (%ld), operation %" PRIu64 "%s", what, value,
			 judge->done + !judge->acknowledged,
			 judge->acknowledged ? " has returned" : "");
}

static bool is_promised(const struct judge *judge, uint64_t digest)
{
	if (digest == judge->digest[judge->done - judge->first])
		return true;
	return judge->done < judge->last &&
	       digest == judge->digest[judge->done + 1 - judge->first];
}

static void judge_image(struct pm_env *image, bool plain, void *context)
{
	struct judge *judge = context;
	struct state state, again;
	int err = state_see(image, &state);

	if (err) {
		violation(judge, "it does not open", err);
		return;
	}
	if (state.damaged)
		violation(judge, "a cut looks like damage",
			  (long)state.damaged);
	else if (!is_promised(judge, state.digest))
		violation(judge, "neither before nor after", (long)judge->done);
	/* All copies are written by the time an operation returns. */
	else if (plain && judge->acknowledged && state.repaired)
		violation(judge, "a copy was not written",
			  (long)state.repaired);
	err = state_see(image, &again);
	if (err || again.repaired || again.digest != state.digest)
		violation(judge, "opened twice it is another", err);
}

static void cut(struct judge *judge)
{
	judge->places++;
	if (judge->violations) { /* one is enough, and the rest follows of it */
		judge->caches.changed = false;
		return;
	}
	caches_cut(&judge->caches, judge->limit, judge_image, judge);
}

/* What the window promises, from here to its end, and nothing else of it. False:
 * it has no such end, or what was stored is no promise.
 */
static bool read_promises(struct judge *judge)
{
	struct recording rest = judge->recording;
	struct promise promise;
	struct happened event;

	memcpy(&promise, judge->caches.memory + judge->promise,
	       sizeof(promise));
	judge->first = judge->last = judge->done = promise.done;
	judge->broken = promise.broken;
	judge->digest[0] = promise.digest;
	while (recording_next(&rest, &event)) {
		if (event.kind == REM_REC_WINDOW)
			return !event.aux;
		if (event.kind != REM_REC_STORE ||
		    event.offset / LINE_BYTES != judge->promise / LINE_BYTES ||
		    event.offset % LINE_BYTES + event.bytes > sizeof(promise))
			continue;
		memcpy((rem_u8 *)&promise + event.offset % LINE_BYTES,
		       event.data, event.bytes);
		judge->broken = promise.broken;
		if (promise.done == judge->last)
			continue;
		if (promise.done != judge->last + 1 ||
		    promise.done - judge->first >= PROMISES_MAX)
			return false;
		judge->last = promise.done;
		judge->digest[judge->last - judge->first] = promise.digest;
	}
	return false;
}

static void store(struct judge *judge, const struct happened *event)
{
	uint64_t done;

	if (event->offset / LINE_BYTES != judge->promise / LINE_BYTES) {
		caches_store(&judge->caches, event->offset, event->data,
			     event->bytes);
		judge->acknowledged = false;
		return;
	}
	/* The promise itself is looked at where it is stored, on no media. */
	memcpy(judge->caches.memory + event->offset, event->data, event->bytes);
	memcpy(&done, judge->caches.memory + judge->promise, sizeof(done));
	if (done == judge->done)
		return;
	judge->done = done;
	judge->acknowledged = true;
	cut(judge);
}

/*
 * Stores that bypass the caches are told to be on their way when their line is
 * full, or right behind the fence that waited for them.
 */
static void fence(struct judge *judge)
{
	struct recording ahead = judge->recording;
	struct happened event;

	if (judge->caches.changed)
		cut(judge);
	while (recording_next(&ahead, &event) &&
	       (!event.kind || event.kind == REM_REC_WRITEBACK)) {
		if (event.kind && event.aux == REM_REC_BY_NT_STORE)
			caches_flush(&judge->caches, event.offset);
		judge->recording = ahead;
	}
	caches_fence(&judge->caches);
}

/* One event inside a window; true at its end. */
static bool ends(struct judge *judge, const struct happened *event)
{
	switch (event->kind) {
	case REM_REC_STORE:
		store(judge, event);
		break;
	case REM_REC_UNSEEN:
		caches_line(&judge->caches, event->offset, event->data);
		break;
	case REM_REC_FLUSH:
		caches_flush(&judge->caches, event->offset);
		break;
	case REM_REC_WRITEBACK:
		if (event->aux == REM_REC_BY_NT_STORE)
			caches_flush(&judge->caches, event->offset);
		break;
	case REM_REC_FENCE:
		fence(judge);
		break;
	case REM_REC_WINDOW:
		cut(judge);
		return true;
	}
	return false;
}

/*
 * After a window's begin: its lines, then all of it. Null, or why it cannot be
 * judged.
 */
static const char *judge_window(struct judge *judge)
{
	struct happened event;
	size_t before;

	for (;;) {
		before = judge->recording.at;
		if (!recording_next(&judge->recording, &event) ||
		    (event.kind && event.kind != REM_REC_LINE))
			break;
		if (event.kind)
			caches_line(&judge->caches, event.offset, event.data);
	}
	judge->recording.at = before;
	judge->promise =
		state_promise(judge->caches.memory, judge->caches.image.bytes);
	if (!judge->promise)
		return "a window without promises";
	if (!read_promises(judge))
		return "a window is cut short, or damaged";
	judge->places = judge->violations = 0;
	judge->caches.images = 0;
	judge->acknowledged = false;
	judge->shown[0] = 0;
	while (recording_next(&judge->recording, &event))
		if (ends(judge, &event))
			return NULL;
	return "a window is cut short, or damaged";
}

static void tell(const struct judge *judge)
{
	printf("{\"operations\":%" PRIu64 ",\"places\":%lu,\"images\":%lu,"
	       "\"violations\":%lu,\"broken\":%" PRIu64 ",\"first\":\"%s\"}\n",
	       judge->last - judge->first, judge->places, judge->caches.images,
	       judge->violations, judge->broken, judge->shown);
	fflush(stdout);
}

static int judge_all(struct judge *judge, const char *dir)
{
	unsigned long windows = 0;
	struct happened event;
	const char *why = NULL;

	while (!why && recording_next(&judge->recording, &event)) {
		if (event.kind == REM_REC_WRITEBACK)
			caches_write_back(&judge->caches, event.offset,
					  event.data);
		if (event.kind != REM_REC_WINDOW || !event.aux)
			continue;
		caches_forget(&judge->caches);
		why = judge_window(judge);
		if (!why)
			tell(judge);
		caches_forget(&judge->caches);
		windows++;
	}
	if (!why && !windows)
		why = "no window";
	if (why)
		fprintf(stderr, "%s: %s\n", dir, why);
	return why ? 4 : 0;
}

int main(int argc, char **argv)
{
	static struct judge judge;
	rem_u64 region, bytes;
	rem_u8 *media;
	int err;

	if (argc < 4) {
		fprintf(stderr, "pm-judge DIR REGION BYTES [LIMIT [SEED]]\n");
		return 2;
	}
	region = strtoull(argv[2], NULL, 0);
	bytes = strtoull(argv[3], NULL, 0);
	judge.limit = argc > 4 ? strtoul(argv[4], NULL, 0) : LIMIT;
	media = aligned_alloc(4096, bytes);
	if (!media)
		return 4;
	err = recording_open(&judge.recording, argv[1], region, bytes, media);
	if (err) {
		fprintf(stderr, "%s: no recording of that region: %s\n",
			argv[1], strerror(-err));
		return 4;
	}
	caches_begin(&judge.caches, media, bytes);
	judge.caches.seed = argc > 5 ? strtoul(argv[5], NULL, 0) : 1;
	return judge_all(&judge, argv[1]);
}
