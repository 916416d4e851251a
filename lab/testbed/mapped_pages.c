// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A program that would notice an old page of a file in what it has mapped.
 *
 *     mapped_pages FOLDER PAGES PROGRESS
 *
 * In FOLDER it has a file of PAGES pages, which it has mapped three times: private, shared for
 * reading only, and private for writing, where it stores to one page of eight. In each round it
 * checks all pages of each mapping; a child that is born and ends in the round checks those that it
 * has got, and a mapping of its own. What a page has to hold follows from its number and that of
 * the round. In each round some pages are changed, so each of them is left alone long enough to be
 * among the hot ones: by write(), by a store to another mapping, or by a direct write. A page is
 * checked at once after its change in each mapping. A second file is cut within a page, and grows
 * again. The private mapping moves, is split, loses its rights and gets them back, and the kernel
 * reads pages of it. The number of the round is written to PROGRESS after each. It ends with a line
 * on stderr, and exit code 1, at the first difference.
 */
#define _GNU_SOURCE
#include "page_words.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	EVERY = 24, /* rounds between two changes of a page */
	OWN = 8, /* of so many pages one is the program's own in the third mapping */
	SHORT = 32, /* pages of the second file */
	SAMPLES = 8,
};

typedef volatile uint64_t page_t[WORDS];

/* Of one file. */
struct file {
	uint64_t number;
	int fd;
	int reading;
	int direct;
};

static struct file pages = { .number = 1 }, shorter = { .number = 2 };
static page_t *private, *shared, *own, *cut_pages;
static uint64_t count;
static _Alignas(BYTES) uint64_t buffer[WORDS];
static const char *folder;

/* The last round in which a page of the first file was changed. */
static uint64_t version_of(uint64_t page, uint64_t round)
{
	return last_written(page, round, EVERY);
}

static void fill(uint64_t file, uint64_t page, uint64_t version)
{
	fill_words(buffer, file, page, version);
}

static void check(volatile uint64_t *words, uint64_t file, uint64_t page, uint64_t version,
		  uint64_t round, const char *how)
{
	for (uint64_t i = 0; i < WORDS; i++) {
		if (words[i] == word_of(file, page, version, i))
			continue;
		fprintf(stderr, "WRONG: %s: page %lu, word %lu, round %lu: not version %lu\n", how,
			page, i, round, version);
		exit(1);
	}
}

/* A page in all that is mapped. */
static void check_page(uint64_t page, uint64_t round, const char *how)
{
	uint64_t version = version_of(page, round);

	check(private[page], pages.number, page, version, round, how);
	check(shared[page], pages.number, page, version, round, "shared");
	if (page % OWN)
		check(own[page], pages.number, page, version, round, "private for writing");
	else
		check(own[page], 0, page, 0, round, "program's own");
}

static page_t *map_file(int fd, uint64_t size, int rights, int flags)
{
	void *map = mmap(NULL, size * BYTES, rights, flags, fd, 0);

	if (map == MAP_FAILED)
		fail("mmap");
	return map;
}

static void open_file(struct file *file, const char *name, uint64_t size)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path);
	file->fd = open(path, O_RDWR | O_CREAT, 0644);
	file->reading = open(path, O_RDONLY);
	file->direct = open(path, O_RDWR | O_DIRECT);
	if (file->fd < 0 || file->reading < 0 || file->direct < 0)
		fail(path);
	for (uint64_t page = 0; page < size; page++) {
		fill(file->number, page, 0);
		if (pwrite(file->fd, buffer, BYTES, page * BYTES) != BYTES)
			fail("first pwrite");
	}
	if (fdatasync(file->fd))
		fail("fdatasync");
}

static void store(uint64_t page, uint64_t round)
{
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, pages.fd, page * BYTES);

	if (map == MAP_FAILED)
		fail("mmap of one");
	memcpy(map, buffer, BYTES);
	check_page(page, round, "being stored");
	if (munmap(map, BYTES))
		fail("munmap of one");
}

static void change(uint64_t page, uint64_t round)
{
	static const char *const how[] = { "written", "stored", "written directly" };
	uint64_t way = any(3);

	fill(pages.number, page, round);
	if (way == 0 && pwrite(pages.fd, buffer, BYTES, page * BYTES) != BYTES)
		fail("pwrite");
	if (way == 1)
		store(page, round);
	if (way == 2 && pwrite(pages.direct, buffer, BYTES, page * BYTES) != BYTES)
		fail("direct pwrite");
	check_page(page, round, how[way]);
}

/* It ends within a page, grows again, and has zeros from there on; then it is written. */
static void cut(uint64_t round)
{
	uint64_t half = WORDS / 2, page = any(SHORT), old = (round - 1) / EVERY * EVERY;

	if (ftruncate(shorter.fd, page * BYTES + BYTES / 2) ||
	    ftruncate(shorter.fd, SHORT * BYTES))
		fail("ftruncate");
	for (uint64_t at = page; at < SHORT; at++) {
		for (uint64_t i = 0; i < WORDS; i++) {
			uint64_t kept = at == page && i < half;

			if (cut_pages[at][i] == (kept ? word_of(shorter.number, at, old, i) : 0))
				continue;
			fprintf(stderr, "WRONG: cut: page %lu, word %lu, round %lu\n", at, i,
				round);
			exit(1);
		}
	}
	for (page = 0; page < SHORT; page++) {
		fill(shorter.number, page, round);
		if (pwrite(shorter.fd, buffer, BYTES, page * BYTES) != BYTES)
			fail("pwrite of the second file");
	}
	if (fdatasync(shorter.fd))
		fail("fdatasync of the second file");
}

static void check_all(uint64_t round, const char *how)
{
	for (uint64_t page = 0; page < count; page++)
		check_page(page, round, how);
}

/* It has what its parent has mapped, and maps the file itself. */
static void check_in_child(uint64_t round)
{
	int status;
	pid_t child = fork();
	page_t *map;

	if (child < 0)
		fail("fork");
	if (!child) {
		check_all(round, "child's");
		map = map_file(pages.fd, count, PROT_READ, MAP_PRIVATE);
		for (uint64_t page = 0; page < count; page++)
			check(map[page], pages.number, page, version_of(page, round), round,
			      "child's own mapping");
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
}

/* The kernel reads a page by its address. */
static void through_kernel(uint64_t round)
{
	uint64_t page = any(count), version = version_of(page, round);
	int memory = open("/proc/self/mem", O_RDONLY);

	if (memory < 0 || pread(memory, buffer, BYTES, (off_t)private[page]) != BYTES)
		fail("/proc/self/mem");
	close(memory);
	check(buffer, pages.number, page, version, round, "through the kernel");
	/* A device reads it, and what has come to the disk is read. */
	if (pwrite(shorter.direct, (void *)private[page], BYTES, SHORT * BYTES) != BYTES ||
	    pread(shorter.direct, buffer, BYTES, SHORT * BYTES) != BYTES)
		fail("direct");
	check(buffer, pages.number, page, version, round, "through a device");
	if (ftruncate(shorter.fd, SHORT * BYTES))
		fail("ftruncate behind");
}

/* The private mapping has another place, after a part of it had other rights. */
static void move(uint64_t round)
{
	uint64_t first = any(count / 2), some = 1 + any(count / 2);
	page_t *to;

	if (mprotect((void *)private[first], some * BYTES, PROT_NONE) ||
	    mprotect((void *)private[first], some * BYTES, PROT_READ) ||
	    mlock((void *)private[first], BYTES) || munlock((void *)private[first], BYTES) ||
	    (round % 2 && madvise((void *)private[first], some * BYTES, MADV_DONTNEED)))
		fail("rights");
	to = mmap(NULL, count * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED || mremap((void *)private, count * BYTES, count * BYTES,
				       MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
		fail("mremap");
	private = to;
	check_all(round, "moved");
}

static void one_round(uint64_t round)
{
	uint64_t last = round / EVERY * EVERY;

	for (uint64_t page = 0; page < count; page++) {
		if (version_of(page, round) == round)
			change(page, round);
		else
			check_page(page, round, "left alone");
	}
	if (fdatasync(pages.fd))
		fail("fdatasync");
	check_in_child(round);
	through_kernel(round);
	if (round % SAMPLES == 0)
		move(round);
	if (round == last)
		cut(round);
	for (uint64_t page = 0; page < SHORT; page++)
		check(cut_pages[page], shorter.number, page, last, round, "cut file");
}

int main(int argc, char **argv)
{
	int progress;

	if (argc != 4)
		return 2;
	folder = argv[1];
	count = strtoull(argv[2], NULL, 10);
	progress = open_progress(argv[3]);
	if (count < OWN)
		return 2;
	open_file(&pages, "mapped", count);
	open_file(&shorter, "cut", SHORT);
	private = map_file(pages.fd, count, PROT_READ, MAP_PRIVATE);
	shared = map_file(pages.reading, count, PROT_READ, MAP_SHARED);
	own = map_file(pages.fd, count, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	cut_pages = map_file(shorter.fd, SHORT, PROT_READ, MAP_PRIVATE);
	for (uint64_t page = 0; page < count; page += OWN)
		for (uint64_t i = 0; i < WORDS; i++)
			own[page][i] = word_of(0, page, 0, i);
	for (uint64_t round = 1;; round++) {
		one_round(round);
		report(progress, round);
	}
}
