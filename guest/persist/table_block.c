// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The table kept on a block device, by write(2) and fdatasync(2).
 *
 * A log has the changes of each batch of steps, with a checksum, and is synced
 * after each; when it is full, the table is written as a whole into the other of
 * two files and synced, and the log begins again. Recovery takes the newer
 * table that is whole, and the batches of the log that follow it.
 */
#include "check.h"
#include "table.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_BATCHES 512

struct batch {
	uint64_t steps; /* done with it */
	struct change changes[TABLE_BATCH];
	uint64_t checksum;
};

struct table {
	uint64_t steps;
	struct entry entries[TABLE_ENTRIES];
	uint64_t checksum;
};

static struct table other;
static struct table table
	__attribute__((aligned(TABLE_BYTES))); /* a large page */
static int log_fd, table_fd[2];
static int newer;

static uint64_t checksum_of(const void *from, size_t bytes)
{
	/* Never that of a file that is all zeros. */
	return 1ULL << 32 | check_crc32(from, bytes);
}

static int open_file(const char *folder, const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		check_fail_errno(path);
	return fd;
}

static void put(int fd, const void *from, size_t bytes, off_t at)
{
	if (pwrite(fd, from, bytes, at) != (ssize_t)bytes || fdatasync(fd))
		check_fail_errno("write");
}

static bool read_table(int fd, struct table *to)
{
	return pread(fd, to, sizeof(*to), 0) == sizeof(*to) &&
	       to->checksum ==
		       checksum_of(to, offsetof(struct table, checksum));
}

static void write_table(void)
{
	newer = !newer;
	table.checksum = checksum_of(&table, offsetof(struct table, checksum));
	put(table_fd[newer], &table, sizeof(table), 0);
}

static void recover(void)
{
	bool is_whole[2];
	struct batch batch;

	is_whole[0] = read_table(table_fd[0], &table);
	is_whole[1] = read_table(table_fd[1], &other);
	if (is_whole[1] && (!is_whole[0] || other.steps > table.steps)) {
		table = other;
		newer = 1;
	} else if (!is_whole[0]) {
		table_fill(table.entries);
		table.steps = 0;
		newer = 1;
		write_table();
		return;
	}
	for (off_t i = 0; i < LOG_BATCHES; i++) {
		if (pread(log_fd, &batch, sizeof(batch),
			  i * (off_t)sizeof(batch)) != sizeof(batch) ||
		    batch.checksum != checksum_of(&batch, offsetof(struct batch,
								   checksum)) ||
		    batch.steps != table.steps + TABLE_BATCH)
			break;
		for (int j = 0; j < TABLE_BATCH; j++)
			table.entries[batch.changes[j].index] =
				batch.changes[j].entry;
		table.steps = batch.steps;
	}
	write_table();
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", "folder", NULL };
	int64_t begin_ns = check_now_ns(CLOCK_MONOTONIC);
	struct batch batch;
	const char *folder;
	uint64_t rounds;
	off_t in_log = 0;

	check_begin(argc, argv, extra);
	rounds = check_number("rounds", 1);
	if (rounds % TABLE_BATCH)
		check_fail("--rounds: a multiple of %d", TABLE_BATCH);
	folder = check_option("folder", "/mnt");
	log_fd = open_file(folder, "log");
	table_fd[0] = open_file(folder, "table0");
	table_fd[1] = open_file(folder, "table1");
	recover();
	check_at("recovered=%llu recover_ns=%lld",
		 (unsigned long long)table.steps,
		 (long long)(check_now_ns(CLOCK_MONOTONIC) - begin_ns));
	while (table.steps < rounds) {
		for (int i = 0; i < TABLE_BATCH; i++) {
			batch.changes[i] = table_step(
				table_read_plain, table.entries, table.steps++);
			table.entries[batch.changes[i].index] =
				batch.changes[i].entry;
		}
		batch.steps = table.steps;
		batch.checksum =
			checksum_of(&batch, offsetof(struct batch, checksum));
		put(log_fd, &batch, sizeof(batch),
		    in_log * (off_t)sizeof(batch));
		if (++in_log == LOG_BATCHES) {
			write_table();
			in_log = 0;
		}
	}
	return check_ok("digest=%llu",
			(unsigned long long)table_digest(table.entries));
}
