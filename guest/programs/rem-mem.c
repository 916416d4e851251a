// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-mem: memory pressure without swap.
 *
 * Takes --percent of what is available, and keeps taking and giving back some
 * more, while it reads a file of --file-bytes again and again, so that the
 * kernel must reclaim page cache all the time. Every page has a pattern of its
 * number and generation and is verified before it is rewritten; pages given
 * back by MADV_DONTNEED must come back as zeros.
 */
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096UL
#define FILE_CHUNK_BYTES 65536UL

static uint8_t *memory;
static uint32_t *generations; /* 0: given back, reads as zeros */
static uint64_t pages;

static uint64_t available_bytes(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	if (!kib)
		check_fail("no MemAvailable in /proc/meminfo");
	return kib * 1024;
}

static void verify(uint64_t page)
{
	const uint8_t *at = memory + page * PAGE_BYTES;
	static const uint8_t zeros[PAGE_BYTES];
	bool right;

	if (generations[page])
		right = check_is_filled(at, PAGE_BYTES,
					page << 32 | generations[page]);
	else
		right = !memcmp(at, zeros, PAGE_BYTES);
	if (!right)
		check_fail("page %llu generation %u is wrong",
			   (unsigned long long)page, generations[page]);
}

static void change(uint64_t page, bool give_back)
{
	uint8_t *at = memory + page * PAGE_BYTES;

	verify(page);
	if (give_back) {
		if (madvise(at, PAGE_BYTES, MADV_DONTNEED))
			check_fail_errno("madvise");
		generations[page] = 0;
		return;
	}
	if (!++generations[page])
		generations[page] = 1;
	check_fill(at, PAGE_BYTES, page << 32 | generations[page]);
}

static int make_file(const char *path, uint64_t bytes)
{
	static uint8_t chunk[FILE_CHUNK_BYTES];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		check_fail_errno(path);
	for (uint64_t at = 0; at < bytes; at += sizeof(chunk)) {
		check_fill(chunk, sizeof(chunk), ~at);
		check_write(fd, chunk, sizeof(chunk));
	}
	if (fsync(fd))
		check_fail_errno("fsync");
	return fd;
}

static void read_file(int fd, uint64_t at)
{
	static uint8_t chunk[FILE_CHUNK_BYTES];

	if (pread(fd, chunk, sizeof(chunk), (off_t)at) !=
	    (ssize_t)sizeof(chunk))
		check_fail_errno("read of the file");
	if (!check_is_filled(chunk, sizeof(chunk), ~at))
		check_fail("the file is wrong at %llu", (unsigned long long)at);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "percent", "file", "file-bytes",
					     NULL };
	const char *path;
	uint64_t file_bytes, round = 0;
	int fd;

	check_begin(argc, argv, extra);
	path = check_option("file", "/root/rem-mem.data");
	file_bytes = check_number("file-bytes", 64 << 20) &
		     ~(FILE_CHUNK_BYTES - 1);
	pages = available_bytes() / 100 * check_number("percent", 60) /
		PAGE_BYTES;
	if (!pages || !file_bytes)
		check_fail("--percent or --file-bytes is too small");
	fd = make_file(path, file_bytes);
	memory = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	generations = calloc(pages, sizeof(*generations));
	if (memory == MAP_FAILED || !generations)
		check_fail_errno("mmap");
	for (; check_go_on(round); round++) {
		uint64_t random = check_mix(round);

		/* Taking outweighs giving back, so all of it gets used. */
		change((random >> 8) % pages, random % 8 == 0);
		change(round % pages, false);
		if (random % 64 == 1)
			read_file(fd, (random >> 16) %
					      (file_bytes / FILE_CHUNK_BYTES) *
					      FILE_CHUNK_BYTES);
		if (check_asked())
			check_at("rounds=%llu", (unsigned long long)round);
	}
	for (uint64_t page = 0; page < pages; page++)
		verify(page);
	unlink(path);
	return check_ok("rounds=%llu pages=%llu", (unsigned long long)round,
			(unsigned long long)pages);
}
