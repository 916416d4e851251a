// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The table in memory of a region that is flushed when power fails (WSP's flush
 * on fail): plain loads and stores, no log. It counts on Stop and Go.
 */
#include "check.h"
#include "nvheap.h"
#include "table.h"

#include <time.h>

#define REGION_BYTES (32UL << 20)

static void need(int result, const char *what)
{
	if (result < 0)
		check_fail("%s: %s", what, nvheap_why());
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", "file", "volatile",
					     NULL };
	int64_t begin_ns = check_now_ns(CLOCK_MONOTONIC);
	struct nvheap_fof_local *local;
	struct nvheap_fof *region;
	struct entry *entries;
	unsigned int flags;
	const char *path;
	uint64_t rounds;
	void *at;

	check_begin(argc, argv, extra);
	rounds = check_number("rounds", 1);
	path = check_option("file", "/mnt/fof");
	flags = check_number("volatile", 0) ?
			NVHEAP_ASSUME_PERSISTENT | NVHEAP_ASSUME_FLUSH_ON_FAIL :
			0;
	need(nvheap_fof_create(path, REGION_BYTES, flags, &region), path);
	need(nvheap_fof_local_new(region, &local), "allocator");
	need(nvheap_fof_alloc(local, TABLE_ENTRIES * sizeof(*entries), &at),
	     "allocate");
	need(nvheap_fof_set_root(region, "table", at), "root");
	entries = at;
	table_fill(entries);
	check_at("recovered=0 recover_ns=%lld",
		 (long long)(check_now_ns(CLOCK_MONOTONIC) - begin_ns));
	for (uint64_t number = 0; number < rounds; number++) {
		struct change change =
			table_step(table_read_plain, entries, number);

		entries[change.index] = change.entry;
	}
	check_ok("digest=%llu", (unsigned long long)table_digest(entries));
	need(nvheap_fof_local_delete(local), "allocator");
	need(nvheap_fof_close(region), "close");
	return 0;
}
