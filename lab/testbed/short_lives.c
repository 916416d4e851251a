// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Processes that live for a moment, each of which would notice a page with an old content.
 *
 *     short_lives PAGES PROGRESS [pause_us]
 *
 * In each round a child is born that shares PAGES anonymous pages of its parent. It has PAGES new
 * ones, which have to be zero, and which it fills; it changes every other one of the shared ones,
 * and of a private mapping of a file; it waits for pause_us, checks all that it has, also what it
 * has not changed, and ends. The parent checks its own pages then, of which the child has changed
 * none, and changes a few. What a page has to hold follows from its number and that of the round.
 * The number of the round is written to PROGRESS after each. It ends with a line on stderr, and
 * exit code 1, at the first difference.
 */
#include "page_words.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { EVERY = 16 };
/* Whose content it is. */
enum { OF_PARENT = 1, OF_CHILD, OF_FILE, NEW };

typedef uint64_t page_t[WORDS];

static uint64_t count;

static void fill(page_t *pages, uint64_t kind, uint64_t page, uint64_t version)
{
	fill_words(pages[page], kind, page, version);
}

static void wrong(const char *who, uint64_t page, uint64_t i, uint64_t round)
{
	fprintf(stderr, "WRONG: %s: page %lu, word %lu, round %lu\n", who, page, i, round);
	exit(1);
}

static void check(page_t *pages, uint64_t kind, uint64_t page, uint64_t version, uint64_t round,
		  const char *who)
{
	for (uint64_t i = 0; i < WORDS; i++)
		if (pages[page][i] != word_of(kind, page, version, i))
			wrong(who, page, i, round);
}

/* The last round in which the parent wrote a page. */
static uint64_t version_of(uint64_t page, uint64_t round)
{
	return last_written(page, round, EVERY);
}

static page_t *map(int flags, int file)
{
	page_t *pages = mmap(NULL, count * BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | flags, file, 0);

	if (pages == MAP_FAILED)
		fail("mmap");
	/* A huge page has no room in DRAM. */
	if (madvise(pages, count * BYTES, MADV_NOHUGEPAGE))
		fail("madvise");
	return pages;
}

static int make_file(void)
{
	char name[] = "/tmp/short-lives.XXXXXX";
	int file = mkstemp(name);
	page_t page;

	if (file < 0)
		fail(name);
	unlink(name);
	for (uint64_t number = 0; number < count; number++) {
		fill_words(page, OF_FILE, number, 0);
		if (write(file, page, BYTES) != BYTES)
			fail("write");
	}
	return file;
}

static void live(page_t *shared, int file, uint64_t round, unsigned int pause_us)
{
	page_t *own = map(MAP_ANONYMOUS, -1), *of_file = map(0, file);

	for (uint64_t page = 0; page < count; page++) {
		/* One that is read first begins as the page of zeros that all share. */
		if (page % 4)
			*(volatile uint64_t *)own[page] = 0;
		for (uint64_t i = 0; i < WORDS; i++)
			if (own[page][i])
				wrong("not zero", page, i, round);
		fill(own, NEW, page, round);
		if (page % 2) {
			fill(shared, OF_CHILD, page, round);
			of_file[page][page % WORDS] = word_of(OF_CHILD, page, round, 0);
		}
	}
	usleep(pause_us);
	for (uint64_t page = 0; page < count; page++) {
		check(own, NEW, page, round, round, "new");
		if (page % 2) {
			check(shared, OF_CHILD, page, round, round, "child's own");
			if (of_file[page][page % WORDS] != word_of(OF_CHILD, page, round, 0))
				wrong("file's copy, changed", page, page % WORDS, round);
			of_file[page][page % WORDS] = word_of(OF_FILE, page, 0, page % WORDS);
		} else {
			check(shared, OF_PARENT, page, version_of(page, round), round, "shared");
		}
		check(of_file, OF_FILE, page, 0, round, "file's");
	}
	_exit(0);
}

static void bear(page_t *shared, int file, uint64_t round, unsigned int pause_us)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child)
		live(shared, file, round, pause_us);
	if (waitpid(child, &status, 0) != child || status) {
		if (WIFSIGNALED(status))
			fprintf(stderr, "WRONG: child ended by signal %d\n", WTERMSIG(status));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	unsigned int pause_us = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	page_t *pages;
	int progress, file;

	if (argc < 3)
		return 2;
	count = strtoull(argv[1], NULL, 10);
	progress = open_progress(argv[2]);
	if (!count)
		return 2;
	file = make_file();
	pages = map(MAP_ANONYMOUS, -1);
	for (uint64_t page = 0; page < count; page++)
		fill(pages, OF_PARENT, page, 0);
	for (uint64_t round = 1;; round++) {
		for (uint64_t page = 0; page < count; page++)
			if (version_of(page, round) == round)
				fill(pages, OF_PARENT, page, round);
		bear(pages, file, round, pause_us);
		for (uint64_t page = 0; page < count; page++)
			check(pages, OF_PARENT, page, version_of(page, round), round, "parent");
		report(progress, round);
	}
}
