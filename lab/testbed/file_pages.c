// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A program that would notice an old page of a file.
 *
 *     file_pages FOLDER PAGES PROGRESS
 *
 * In FOLDER it has a file of PAGES pages. In each round it reads all of them, and some
 * bytes at any offset, and checks them. What a page has to hold follows from its number
 * and that of the round. In each round some pages are changed, so each of them is left
 * alone long enough to be among the hot ones: by write(), by a store to a mapping, or by
 * a direct write. A page is read at once after its change, and is on the disk at the end
 * of the round. A second file is truncated, within a page, too, and grows again, a third
 * one is made again. The number of the round is written to PROGRESS after each. It ends
 * with a line on stderr, and exit code 1, at the first difference.
 */
#define _GNU_SOURCE
#include "page_words.h"

#include <string.h>
#include <sys/mman.h>

enum {
	EVERY = 24, /* rounds between two changes of a page */
	SHORT = 64, /* pages of the second and third file */
	SAMPLES = 16,
	SAMPLE_PAGES = 5,
};

static uint64_t count;
static _Alignas(BYTES) uint64_t page_of[WORDS];
static const char *folder;

/* The last round in which a page of the first file was changed. */
static uint64_t version_of(uint64_t page, uint64_t round)
{
	return last_written(page, round, EVERY);
}

static void wrong(const char *how, uint64_t page, uint64_t at, uint64_t round, uint64_t version)
{
	fprintf(stderr, "WRONG: %s: page %lu, byte %lu, round %lu: not version %lu\n", how, page, at,
		round, version);
	exit(1);
}

static void fill(uint64_t file, uint64_t page, uint64_t version)
{
	fill_words(page_of, file, page, version);
}

static void check(int fd, uint64_t file, uint64_t page, uint64_t version, uint64_t round,
		  const char *how)
{
	if (pread(fd, page_of, BYTES, page * BYTES) != BYTES)
		fail("pread");
	for (uint64_t i = 0; i < WORDS; i++)
		if (page_of[i] != word_of(file, page, version, i))
			wrong(how, page, i * sizeof(*page_of), round, version);
}

/* One read of several pages, from and to any byte. */
static void check_some(int fd, uint64_t round)
{
	static uint8_t bytes[SAMPLE_PAGES * BYTES];
	uint64_t size = 1 + any(sizeof(bytes)), start = any(count * BYTES - size + 1);

	if (pread(fd, bytes, size, start) != (ssize_t)size)
		fail("pread of some");
	for (uint64_t i = 0; i < size; i++) {
		uint64_t at = start + i, page = at / BYTES, version = version_of(page, round);
		uint64_t word = word_of(0, page, version, at % BYTES / sizeof(word));

		if (bytes[i] != (uint8_t)(word >> at % sizeof(word) * 8))
			wrong("some", page, at % BYTES, round, version);
	}
}

static void store(int fd, uint64_t page)
{
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page * BYTES);

	if (map == MAP_FAILED)
		fail("mmap");
	memcpy(map, page_of, BYTES);
	if (munmap(map, BYTES))
		fail("munmap");
}

static void change(int fd, int direct, uint64_t page, uint64_t round)
{
	fill(0, page, round);
	switch (any(3)) {
	case 0:
		if (pwrite(fd, page_of, BYTES, page * BYTES) != BYTES)
			fail("pwrite");
		break;
	case 1:
		store(fd, page);
		break;
	case 2:
		if (pwrite(direct, page_of, BYTES, page * BYTES) != BYTES)
			fail("direct pwrite");
	}
	check(fd, 0, page, round, round, "changed");
}

static void write_short(int fd, uint64_t file, uint64_t version)
{
	for (uint64_t page = 0; page < SHORT; page++) {
		fill(file, page, version);
		if (pwrite(fd, page_of, BYTES, page * BYTES) != BYTES)
			fail("pwrite of a short file");
	}
	if (fdatasync(fd))
		fail("fdatasync");
}

/* It ends within a page, grows again, and has zeros from there on; then it is written. */
static void cut(int fd, uint64_t round)
{
	uint64_t half = BYTES / 2, page = any(SHORT), old = (round - 1) / EVERY * EVERY;

	if (ftruncate(fd, page * BYTES + half) || ftruncate(fd, SHORT * BYTES))
		fail("ftruncate");
	for (uint64_t at = page; at < SHORT; at++) {
		if (pread(fd, page_of, BYTES, at * BYTES) != BYTES)
			fail("pread behind the cut");
		for (uint64_t i = 0; i < WORDS; i++) {
			uint64_t kept = at == page && i * sizeof(*page_of) < half;

			if (page_of[i] != (kept ? word_of(1, at, old, i) : 0))
				wrong("cut", at, i * sizeof(*page_of), round, old);
		}
	}
	write_short(fd, 1, round);
}

static int open_file(const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (flags & O_TRUNC)
		unlink(path);
	fd = open(path, flags | O_RDWR | O_CREAT, 0644);
	if (fd < 0)
		fail(path);
	return fd;
}

static void one_round(int fd, int direct, int shorter, uint64_t round)
{
	static int made = -1;
	uint64_t last = round / EVERY * EVERY;

	for (uint64_t page = 0; page < count; page++) {
		if (version_of(page, round) == round)
			change(fd, direct, page, round);
		else
			check(fd, 0, page, version_of(page, round), round, "left alone");
	}
	for (int i = 0; i < SAMPLES; i++)
		check_some(fd, round);
	if (round == last)
		cut(shorter, round);
	if (round == last || made < 0) {
		if (made >= 0)
			close(made);
		made = open_file("made", O_TRUNC);
		write_short(made, 2, last);
	}
	for (uint64_t page = 0; page < SHORT; page++) {
		check(shorter, 1, page, last, round, "cut file");
		check(made, 2, page, last, round, "made file");
	}
	if (fdatasync(fd))
		fail("fdatasync");
}

int main(int argc, char **argv)
{
	int fd, direct, shorter, progress;

	if (argc != 4)
		return 2;
	folder = argv[1];
	count = strtoull(argv[2], NULL, 10);
	progress = open_progress(argv[3]);
	if (count < SAMPLE_PAGES)
		return 2;
	fd = open_file("pages", O_TRUNC);
	direct = open_file("pages", O_DIRECT);
	shorter = open_file("shorter", O_TRUNC);
	for (uint64_t page = 0; page < count; page++) {
		fill(0, page, 0);
		if (pwrite(fd, page_of, BYTES, page * BYTES) != BYTES)
			fail("first pwrite");
	}
	write_short(shorter, 1, 0);
	for (uint64_t round = 1;; round++) {
		one_round(fd, direct, shorter, round);
		report(progress, round);
	}
}
