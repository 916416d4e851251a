// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-mmap: are dirty pages of a mapped file kept, in memory and on disk?
 *
 * --path FILE --bytes N. Pages of a shared mapping are rewritten at random,
 * each with a pattern of its number and generation; the generations are kept
 * in private memory. Before a page is written it is verified; at times it is
 * read through the file descriptor, at times a range is msync()ed. At the end
 * everything is verified in the mapping and, by O_DIRECT, on the disk.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096UL
#define MSYNC_PAGES 16

static uint8_t *mapping;
static uint32_t *generations;
static uint64_t pages;
static int fd;

static uint64_t page_seed(uint64_t page)
{
	return page << 32 | generations[page];
}

static void verify(const void *at, uint64_t page, const char *where)
{
	if (!check_is_filled(at, PAGE_BYTES, page_seed(page)))
		check_fail("page %llu generation %u is wrong in %s",
			   (unsigned long long)page, generations[page], where);
}

static void rewrite(uint64_t page)
{
	generations[page]++;
	check_fill(mapping + page * PAGE_BYTES, PAGE_BYTES, page_seed(page));
}

static void read_back(uint64_t page)
{
	static uint8_t buffer[PAGE_BYTES];

	if (pread(fd, buffer, PAGE_BYTES, (off_t)(page * PAGE_BYTES)) !=
	    (ssize_t)PAGE_BYTES)
		check_fail_errno("pread");
	verify(buffer, page, "the page cache");
}

static void sync_some(uint64_t page, int flags)
{
	uint64_t count = pages - page < MSYNC_PAGES ? pages - page :
						      MSYNC_PAGES;

	if (msync(mapping + page * PAGE_BYTES, count * PAGE_BYTES, flags))
		check_fail_errno("msync");
}

static void verify_disk(const char *path)
{
	int direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	void *buffer = aligned_alloc(PAGE_BYTES, PAGE_BYTES);

	if (direct < 0 && errno == EINVAL)
		return; /* tmpfs has no disk to look at */
	if (direct < 0 || !buffer)
		check_fail_errno("open with O_DIRECT");
	for (uint64_t page = 0; page < pages; page++) {
		if (pread(direct, buffer, PAGE_BYTES,
			  (off_t)(page * PAGE_BYTES)) != (ssize_t)PAGE_BYTES)
			check_fail_errno("direct read");
		verify(buffer, page, "the file on disk");
	}
	close(direct);
	free(buffer);
}

static void open_file(const char *path)
{
	uint64_t bytes = pages * PAGE_BYTES;

	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		check_fail_errno(path);
	if (posix_fallocate(fd, 0, (off_t)bytes))
		check_fail("no room for %llu bytes in %s",
			   (unsigned long long)bytes, path);
	mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	generations = calloc(pages, sizeof(*generations));
	if (mapping == MAP_FAILED || !generations)
		check_fail_errno("mmap");
	for (uint64_t page = 0; page < pages; page++)
		rewrite(page);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "path", "bytes", NULL };
	const char *path;
	uint64_t round = 0;

	check_begin(argc, argv, extra);
	path = check_option("path", "/root/rem-mmap.data");
	pages = check_number("bytes", 8 << 20) / PAGE_BYTES;
	if (!pages)
		check_fail("--bytes is less than a page");
	open_file(path);
	for (; check_go_on(round); round++) {
		uint64_t random = check_mix(round);
		uint64_t page = (random >> 8) % pages;

		verify(mapping + page * PAGE_BYTES, page, "the mapping");
		rewrite(page);
		if (random % 8 == 0)
			read_back(page);
		if (random % 256 == 1)
			sync_some(page, MS_SYNC);
		if (random % 64 == 2)
			sync_some(page, MS_ASYNC);
		if (check_asked())
			check_at("rounds=%llu", (unsigned long long)round);
	}
	for (uint64_t page = 0; page < pages; page++)
		verify(mapping + page * PAGE_BYTES, page, "the mapping");
	if (msync(mapping, pages * PAGE_BYTES, MS_SYNC) || fsync(fd))
		check_fail_errno("msync");
	verify_disk(path);
	unlink(path);
	return check_ok("rounds=%llu pages=%llu", (unsigned long long)round,
			(unsigned long long)pages);
}
