// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * In the guest of a crash campaign: everything that can be done with segments
 * and blocks, one after the other, and what is promised after each (promise.h).
 *
 *   pm-work begin       on a region that holds nothing
 *   pm-work row SEED    the operations; their content is of SEED
 *
 * Exit status 1 where something is not as it should be: a planted bug may show
 * here as well as in what a cut leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libpm.h"
#include "promise.h"

#define BLOCK 512
#define BLOCKS_MAX 512
#define MANY 8 /* a transaction of the smallest segments */
#define TRANSACTIONS 24

static struct pm *pm;
static volatile struct promise *promise;
static uint64_t seed;

static void wrong(int line, const char *what, long value)
{
	if (promise)
		promise->broken = (uint64_t)line;
	fprintf(stderr, "pm-work: line %d: %s: %ld\n", line, what, value);
	exit(1);
}

#define MUST(call)                                    \
	do {                                          \
		long must = (call);                   \
		if (must)                             \
			wrong(__LINE__, #call, must); \
	} while (0)

static void draw(void *to, size_t bytes)
{
	unsigned char *at = to;

	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		at[i] = (unsigned char)(1 + (seed >> 40) % 255);
	}
}

static size_t read_raw(const char *name, void *to, size_t bytes)
{
	char path[PM_NAME_BYTES + 16];
	ssize_t got;
	int file;

	snprintf(path, sizeof(path), "/dev/pm/%s", name);
	file = open(path, O_RDONLY);
	if (file < 0)
		wrong(__LINE__, path, errno);
	got = read(file, to, bytes);
	close(file);
	return got < 0 ? 0 : (size_t)got;
}

static uint64_t raw_content(uint64_t digest, const struct pm_ioc_segment *of)
{
	static unsigned char data[1 << 20];

	if (of->bytes > sizeof(data) ||
	    read_raw(of->name, data, of->bytes) != of->bytes)
		wrong(__LINE__, "a segment was not read", (long)of->bytes);
	return promise_bytes(digest, data, of->bytes);
}

static uint64_t block_content(uint64_t digest, const struct pm_ioc_segment *of)
{
	static unsigned char data[BLOCKS_MAX][BLOCK];
	struct pm_ioc_block io[BLOCKS_MAX];
	struct pm_ioc_block_status status;
	struct pm_blocks *blocks;

	MUST(pm_blocks_open(of->name, &blocks));
	MUST(pm_blocks_status(blocks, &status));
	if (status.blocks > BLOCKS_MAX || status.block_bytes != BLOCK)
		wrong(__LINE__, "blocks", (long)status.blocks);
	for (uint32_t i = 0; i < status.blocks; i++)
		io[i] = (struct pm_ioc_block){ i, (uintptr_t)data[i] };
	MUST(pm_blocks_read(blocks, io, (uint32_t)status.blocks));
	for (uint32_t i = 0; i < status.blocks; i++)
		digest = promise_block(digest, i, data[i], BLOCK);
	pm_blocks_close(blocks);
	return digest;
}

/* An operation has returned: report what is there now. */
static void done(void)
{
	struct pm_ioc_segment is;
	struct pm_ioc_status status;
	uint64_t digest;

	MUST(pm_status(pm, &status));
	digest = promise_mix(1, status.wish_bytes);
	for (uint32_t slot = 0; !pm_next(pm, &slot, &is); slot++) {
		struct promise_segment head = {
			.bytes = is.bytes,
			.generation = is.generation,
			.map_address = is.map_address,
			.type = is.type,
			.persist = is.persist,
			.uid = is.uid,
			.gid = is.gid,
			.mode = is.mode,
			.block_bytes = is.block_bytes,
		};

		memcpy(head.name, is.name, sizeof(head.name));
		digest = promise_head(digest, &head);
		if (is.type == PM_TYPE_BLOCK)
			digest = block_content(digest, &is);
		else if (promise_counts(&head))
			digest = raw_content(digest, &is);
	}
	promise->digest = digest;
	promise->done = promise->done + 1;
}

static void make(const char *name, uint64_t bytes, uint32_t block_bytes)
{
	struct pm_ioc_segment segment = {
		.slot = PM_SLOT_BY_NAME,
		.type = block_bytes ? PM_TYPE_BLOCK : PM_TYPE_RAW,
		.persist = PM_PERSIST_FOC,
		.bytes = bytes,
		.mode = 0600,
		.block_bytes = block_bytes,
	};

	memcpy(segment.name, name, strlen(name));
	MUST(pm_create(pm, &segment));
}

/* Held between operations: opening it again would repair what they left. */
static struct pm_blocks *held;

static void let_go(void)
{
	pm_blocks_close(held);
	held = NULL;
}

static void create(const char *name, uint64_t bytes, uint32_t block_bytes)
{
	make(name, bytes, block_bytes);
	done();
	if (block_bytes)
		MUST(pm_blocks_open(name, &held));
}

static void resize(const char *name, uint64_t bytes, int may_move)
{
	bool blocks = held;

	let_go();
	MUST(pm_resize(pm, name, bytes, may_move));
	done();
	if (blocks)
		MUST(pm_blocks_open(name, &held));
}

static void destroy(const char *name)
{
	let_go();
	MUST(pm_destroy(pm, name));
	done();
}

static void wish(uint64_t bytes)
{
	MUST(pm_resize_region(pm, bytes));
	done();
}

/* Bytes of a segment from @from on that nobody has written. */
static void zeros(const char *name, size_t from, size_t to)
{
	static unsigned char data[1 << 20];

	if (read_raw(name, data, to) != to)
		wrong(__LINE__, "a segment was not read", (long)to);
	for (size_t i = from; i < to; i++)
		if (data[i])
			wrong(__LINE__, "bytes that nobody wrote", (long)i);
}

/* Content, durable; and from then on it is promised. */
static void fill(const char *name, size_t bytes)
{
	static unsigned char data[1 << 20];
	char path[PM_NAME_BYTES + 16];
	struct pm_ioc_segment is;
	int file;

	snprintf(path, sizeof(path), "/dev/pm/%s", name);
	file = open(path, O_RDWR);
	draw(data, bytes);
	if (file < 0 || write(file, data, bytes) != (ssize_t)bytes)
		wrong(__LINE__, path, errno);
	MUST(fsync(file));
	close(file);
	MUST(pm_get(pm, name, &is));
	is.mode |= PROMISE_SEALED;
	MUST(pm_change(pm, &is));
	done();
}

static void write_blocks(const char *name, uint32_t first, uint32_t count,
			 bool holes)
{
	static unsigned char data[MANY][BLOCK];
	struct pm_ioc_block io[MANY];
	struct pm_blocks *blocks;

	draw(data, sizeof(data));
	for (uint32_t i = 0; i < count; i++)
		io[i] = (struct pm_ioc_block){ first + i,
					       holes ? 0 : (uintptr_t)data[i] };
	MUST(pm_blocks_open(name, &blocks));
	MUST(pm_blocks_write(blocks, io, count));
	pm_blocks_close(blocks);
	done();
}

static void scrub(const char *name)
{
	struct pm_ioc_block_status status;
	struct pm_ioc_status region;
	struct pm_blocks *blocks;

	MUST(pm_blocks_open(name, &blocks));
	MUST(pm_blocks_scrub(blocks, &status));
	pm_blocks_close(blocks);
	MUST((long)status.bad_blocks);
	MUST(pm_check(pm, &region));
	MUST((long)region.refused);
	done();
}

static void raw_segments(void)
{
	create("one", 20000, 0);
	zeros("one", 0, 20000);
	fill("one", 20000);
	create("two", 8192, 0);
	fill("two", 8192);
	resize("one", 60000, 1); /* moves */
	zeros("one", 20000, 60000);
	resize("one", 5000, 0);
	resize("one", 9000, 0);
	zeros("one", 5000, 9000);
	destroy("two");
	create("three", 7000, 0); /* where content was */
	zeros("three", 0, 7000);
	fill("three", 7000);
}

static void block_segments(void)
{
	create("blocks", 96 << 10, BLOCK);
	write_blocks("blocks", 3, 1, false);
	write_blocks("blocks", 3, 1, false);
	write_blocks("blocks", 0, MANY, false);
	write_blocks("blocks", 2, 1, true);
	write_blocks("blocks", 4, 3, true);
	for (int i = 0; i < TRANSACTIONS; i++) {
		unsigned char by[3];

		draw(by, sizeof(by));
		write_blocks("blocks", by[0] % 12u,
			     by[1] % 3 ? 1u + by[1] % MANY : 1u,
			     by[2] % 5 == 0);
	}
	scrub("blocks");
	resize("blocks", 128 << 10, 1); /* laid out again */
	write_blocks("blocks", 150, MANY, false);
	write_blocks("blocks", 150, MANY, true);
	resize("blocks", 96 << 10, 1);
	write_blocks("blocks", 1, 3, false);
}

static void row(void)
{
	struct pm_ioc_status status;

	raw_segments();
	block_segments();
	MUST(pm_status(pm, &status));
	wish(status.region_bytes);
	wish(0);
	destroy("blocks");
	create("again", 64 << 10, BLOCK);
	write_blocks("again", 5, MANY, false);
	scrub("again");
	let_go();
}

int main(int argc, char **argv)
{
	bool begins = argc == 2 && !strcmp(argv[1], "begin");
	struct pm_map *map;

	if (!begins && (argc != 3 || strcmp(argv[1], "row") != 0))
		wrong(__LINE__, "pm-work begin, or pm-work row SEED", argc);
	MUST(pm_open(&pm, 1));
	if (begins)
		make(PROMISE_NAME, PROMISE_BYTES, 0);
	MUST(pm_map(pm, PROMISE_NAME, 1, &map));
	promise = pm_map_address(map);
	if (begins) {
		done();
		pm_persist(pm_map_address(map), sizeof(*promise));
	} else {
		seed = strtoull(argv[2], NULL, 0);
		row();
		printf("%llu operations\n", (unsigned long long)promise->done);
	}
	pm_unmap(map);
	pm_close(pm);
	return 0;
}
