// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The table kept in a persistent heap that flushes on commit: a batch is a transaction. */
#include "check.h"
#include "nvheap.h"
#include "table.h"

#include <errno.h>
#include <time.h>

#define REGION_BYTES (32UL << 20)

/* The root object. */
struct kept {
	uint64_t steps;
	nvheap_ptr entries; /* 0 until the table is filled */
};

static nvheap_ptr root;
static struct kept kept;		    /* a copy */
static struct entry entries[TABLE_ENTRIES]; /* to fill it, and for the digest */

static void need(int result, const char *what)
{
	if (result < 0)
		check_fail("%s: %s", what, nvheap_why());
}

static const struct entry *read_entry(void *table, uint64_t index,
				      struct entry *room)
{
	need(nvheap_load(table, kept.entries + index * sizeof(*room), room,
			 sizeof(*room)),
	     "load");
	return room;
}

static int do_batch(struct nvheap_session *tx, void *context)
{
	uint64_t next = kept.steps;
	int err = 0;

	(void)context;
	for (int i = 0; !err && i < TABLE_BATCH; i++) {
		struct change change = table_step(read_entry, tx, next++);

		err = nvheap_store(
			tx, kept.entries + change.index * sizeof(change.entry),
			&change.entry, sizeof(change.entry));
	}
	return err ? err : nvheap_store(tx, root, &next, sizeof(next));
}

static int fill(struct nvheap_session *tx, void *context)
{
	int err = nvheap_alloc(tx, sizeof(entries), &kept.entries);

	(void)context;
	table_fill(entries);
	if (!err)
		err = nvheap_store(tx, kept.entries, entries, sizeof(entries));
	return err ? err : nvheap_store(tx, root, &kept, sizeof(kept));
}

static int load_root(struct nvheap_session *tx, void *context)
{
	(void)context;
	return nvheap_load(tx, root, &kept, sizeof(kept));
}

static int load_table(struct nvheap_session *tx, void *context)
{
	(void)context;
	return nvheap_load(tx, kept.entries, entries, sizeof(entries));
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", "file", "volatile",
					     NULL };
	int64_t begin_ns = check_now_ns(CLOCK_MONOTONIC);
	struct nvheap_session *session;
	struct nvheap *heap;
	unsigned int flags;
	const char *path;
	uint64_t rounds;
	int err;

	check_begin(argc, argv, extra);
	rounds = check_number("rounds", TABLE_BATCH);
	if (rounds % TABLE_BATCH)
		check_fail("--rounds: a multiple of %d", TABLE_BATCH);
	path = check_option("file", "/mnt/heap");
	flags = check_number("volatile", 0) ? NVHEAP_ASSUME_PERSISTENT : 0;
	err = nvheap_open(path, flags, &heap);
	if (err == -ENOENT)
		err = nvheap_create(path, REGION_BYTES, NVHEAP_FOC_UL, flags,
				    &heap);
	need(err, path);
	need(nvheap_session_new(heap, &session), "session");
	need(nvheap_root(session, "table", sizeof(kept), &root), "root");
	need(nvheap_view(session, load_root, NULL), "load");
	if (!kept.entries)
		need(nvheap_run(session, fill, NULL), "fill");
	check_at("recovered=%llu recover_ns=%lld",
		 (unsigned long long)kept.steps,
		 (long long)(check_now_ns(CLOCK_MONOTONIC) - begin_ns));
	while (kept.steps < rounds) {
		need(nvheap_run(session, do_batch, NULL), "batch");
		kept.steps += TABLE_BATCH;
	}
	need(nvheap_view(session, load_table, NULL), "load");
	need(nvheap_session_delete(session), "session");
	need(nvheap_close(heap), "close");
	return check_ok("digest=%llu",
			(unsigned long long)table_digest(entries));
}
