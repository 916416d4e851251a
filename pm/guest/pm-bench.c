// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * In the guest: what things take, in the guest's own time. Lines: NAME NANOSECONDS.
 *
 *   pm-bench disk DEVICE OPERATIONS   4 KiB read and written directly, each
 *   pm-bench blocks NAME OPERATIONS   one-block transactions, and copy and CRC of a block
 *   pm-bench segments MANY            create and destroy, beside few and beside MANY
 *   pm-bench map FILE OPERATIONS      eight bytes loaded from a mapping and from memory
 *
 * The smallest of several rounds counts: what else the guest does only adds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libpm.h"

#define BYTES 4096
#define PLACES 1000
#define ROUNDS 5
#define MAP_BYTES (1 << 20)

static void die(const char *what, int err)
{
	fprintf(stderr, "pm-bench: %s: %s\n", what, strerror(err));
	exit(4);
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static char *page(void)
{
	char *memory = aligned_alloc(BYTES, BYTES);

	if (!memory)
		die("memory", ENOMEM);
	for (int i = 0; i < BYTES; i++)
		memory[i] = (char)(i * 7);
	return memory;
}

static long long disk_round(int fd, char *data, int count, bool writes)
{
	long long begin = now_ns();

	for (int n = 0; n < count; n++) {
		off_t at = (off_t)(n * 37 % PLACES) * BYTES;
		ssize_t done = writes ? pwrite(fd, data, BYTES, at) :
					pread(fd, data, BYTES, at);

		if (done != BYTES)
			die(writes ? "write" : "read", errno);
	}
	return (now_ns() - begin) / count;
}

static void disk(const char *path, int count)
{
	int fd = open(path, O_RDWR | O_DIRECT);
	char *data = page();

	if (fd < 0)
		die(path, errno);
	for (int writes = 1; writes >= 0; writes--) {
		long long best = 0;

		for (int round = 0; round < ROUNDS; round++) {
			long long took = disk_round(fd, data, count, writes);

			if (!best || took < best)
				best = took;
		}
		printf("%s %lld\n", writes ? "write" : "read", best);
	}
}

/* By the instruction for it, as the kernel does. */
__attribute__((target("sse4.2"))) static uint32_t crc_of(const char *data)
{
	uint64_t crc = ~0u;

	for (int at = 0; at < BYTES; at += 8) {
		uint64_t word;

		memcpy(&word, data + at, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	return (uint32_t)crc;
}

static void blocks(const char *name, int count)
{
	volatile uint32_t sum = 0;
	struct pm_blocks *segment;
	char *data = page(), *copy = page();
	long long begin, best = 0, plain = 0;
	int err = pm_blocks_open(name, &segment);

	if (err)
		die(name, -err);
	for (int round = 0; round < ROUNDS; round++) {
		long long took;

		begin = now_ns();
		for (int n = 0; n < count; n++) {
			struct pm_ioc_block io = {
				.block = (__u64)(n * 37 % PLACES),
				.data = (uintptr_t)data,
			};

			err = pm_blocks_write(segment, &io, 1);
			if (err)
				die("transaction", -err);
		}
		took = (now_ns() - begin) / count;
		if (!best || took < best)
			best = took;
		begin = now_ns();
		for (int n = 0; n < count; n++) {
			memcpy(copy, data, BYTES);
			sum += crc_of(copy);
		}
		took = (now_ns() - begin) / count;
		if (!plain || took < plain)
			plain = took;
	}
	printf("transaction %lld\ncopy_and_crc %lld\n", best, plain);
	pm_blocks_close(segment);
}

static void create(struct pm *pm, const char *name)
{
	struct pm_ioc_segment segment = {
		.slot = PM_SLOT_BY_NAME,
		.type = PM_TYPE_BLOCK, /* without a file, which udev's world costs */
		.persist = PM_PERSIST_FOC,
		.bytes = 4096,
		.block_bytes = 512,
		.mode = 0600,
	};
	int err;

	strcpy(segment.name, name);
	err = pm_create(pm, &segment);
	if (err)
		die(name, -err);
}

static long long one_more(struct pm *pm)
{
	long long best = 0;

	for (int round = 0; round < ROUNDS * 4; round++) {
		long long begin = now_ns(), took;
		int err;

		create(pm, "probe");
		err = pm_destroy(pm, "probe");
		if (err)
			die("destroy", -err);
		took = now_ns() - begin;
		if (!best || took < best)
			best = took;
	}
	return best;
}

static void segments(int many)
{
	struct pm *pm;
	int err = pm_open(&pm, true);

	if (err)
		die("/dev/pmctl", -err);
	printf("few %lld\n", one_more(pm));
	for (int n = 0; n < many; n++) {
		char name[32];

		snprintf(name, sizeof(name), "many%d", n);
		create(pm, name);
	}
	printf("many %lld\n", one_more(pm));
	pm_close(pm);
}

static long long loads(const volatile uint64_t *memory, int count)
{
	long long best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		long long begin = now_ns(), took;
		uint64_t sum = 0;

		for (int n = 0; n < count; n++)
			sum += memory[(n * 521) % (MAP_BYTES / 8)];
		took = (now_ns() - begin) * 1000 / count;
		if (sum == 1)
			puts("");
		if (!best || took < best)
			best = took;
	}
	return best;
}

static void map(const char *path, int count)
{
	int fd = open(path, O_RDWR);
	int flags = MAP_SHARED | MAP_POPULATE;
	void *mapped, *plain;

	if (fd < 0)
		die(path, errno);
	mapped = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	plain = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE,
		     flags | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED || plain == MAP_FAILED)
		die("mmap", errno);
	loads(mapped, count); /* all pages are there after it */
	loads(plain, count);
	printf("mapped_ps %lld\nplain_ps %lld\n", loads(mapped, count),
	       loads(plain, count));
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "disk"))
		disk(argv[2], atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "blocks"))
		blocks(argv[2], atoi(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "map"))
		map(argv[2], atoi(argv[3]));
	else if (argc == 3 && !strcmp(argv[1], "segments"))
		segments(atoi(argv[2]));
	else
		return 2;
	return 0;
}
