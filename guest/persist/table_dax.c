// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The table kept in mapped persistent memory (DAX), by stores that the program
 * itself writes back.
 *
 * An entry goes into an undo log before it changes. When a batch is done its
 * entries are written back, and one word that holds the number of steps and of
 * valid log entries ends it. Recovery undoes a batch that has not ended.
 */
#include "check.h"
#include "persistent.h"
#include "table.h"

#include <time.h>

#define MAGIC 0x31584144454c4254ULL
#define UNDO_BITS 8

struct kept {
	uint64_t magic; /* written last when the table is made */
	uint64_t progress; /* steps done, times 2^UNDO_BITS, plus valid undo entries */
	uint64_t reserved[6];
	struct change undo[TABLE_BATCH];
	struct entry entries[TABLE_ENTRIES]
		__attribute__((aligned(LINE_BYTES)));
};

static void durable(const void *from, size_t bytes)
{
	persistent_write_back(from, bytes);
	persistent_fence();
}

static void set_progress(struct kept *kept, uint64_t steps, uint64_t undo_count)
{
	kept->progress = steps << UNDO_BITS | undo_count;
	durable(&kept->progress, sizeof(kept->progress));
}

static uint64_t steps_of(const struct kept *kept)
{
	return kept->progress >> UNDO_BITS;
}

static void do_batch(struct kept *kept)
{
	uint64_t steps = steps_of(kept);

	for (uint64_t i = 0; i < TABLE_BATCH; i++) {
		struct change change =
			table_step(table_read_plain, kept->entries, steps + i);
		struct entry *entry = &kept->entries[change.index];

		kept->undo[i].index = change.index;
		kept->undo[i].entry = *entry;
		durable(&kept->undo[i], sizeof(kept->undo[i]));
		set_progress(kept, steps, i + 1);
		*entry = change.entry;
		persistent_write_back(entry, sizeof(*entry));
	}
	persistent_fence();
	set_progress(kept, steps + TABLE_BATCH, 0);
}

static void recover(struct kept *kept)
{
	uint64_t undo_count = kept->progress & ((1 << UNDO_BITS) - 1);

	if (kept->magic != MAGIC) {
		table_fill(kept->entries);
		kept->progress = 0;
		durable(kept, sizeof(*kept));
		kept->magic = MAGIC;
		durable(&kept->magic, sizeof(kept->magic));
		return;
	}
	if (undo_count > TABLE_BATCH)
		check_fail("%llu entries to undo",
			   (unsigned long long)undo_count);
	for (uint64_t i = undo_count; i--;) {
		const struct change *undo = &kept->undo[i];

		if (undo->index >= TABLE_ENTRIES)
			check_fail("undo entry %llu is damaged",
				   (unsigned long long)i);
		kept->entries[undo->index] = undo->entry;
		persistent_write_back(&kept->entries[undo->index],
				      sizeof(undo->entry));
	}
	persistent_fence();
	set_progress(kept, steps_of(kept), 0);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", "file", "volatile",
					     NULL };
	int64_t begin_ns = check_now_ns(CLOCK_MONOTONIC);
	struct kept *kept;
	uint64_t rounds;

	check_begin(argc, argv, extra);
	rounds = check_number("rounds", TABLE_BATCH);
	if (rounds % TABLE_BATCH)
		check_fail("--rounds: a multiple of %d", TABLE_BATCH);
	kept = persistent_map(check_option("file", "/mnt/table"), sizeof(*kept),
			      check_number("volatile", 0) != 0);
	recover(kept);
	check_at("recovered=%llu recover_ns=%lld",
		 (unsigned long long)steps_of(kept),
		 (long long)(check_now_ns(CLOCK_MONOTONIC) - begin_ns));
	while (steps_of(kept) < rounds)
		do_batch(kept);
	return check_ok("digest=%llu",
			(unsigned long long)table_digest(kept->entries));
}
