// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A program that would notice a page with an old content.
 *
 *     working_set PAGES HOT PROGRESS [pause_us [children [lock_at]]]
 *
 * It has PAGES anonymous pages. In each round it uses the first HOT of them: each is either
 * written, every fourth round, or checked whole. What a page has to hold follows from its
 * number and that of the round, so no table tells it that could be as old as the page.
 * A few of the others are checked, too; every sixteenth round a child that shares all of
 * them checks them (`children` 1), or there is always one that has shared them for some
 * seconds, and then checks what they had when it was born (2); and one hot page goes through
 * a pipe and an unlinked file and back, so that the kernel reads and writes it as well. In
 * the round `lock_at` it locks its memory. The number of the round is written to PROGRESS
 * after each. It ends with a line on stderr, and exit code 1, at the first difference.
 */
#include "page_words.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { EVERY = 4, SAMPLES = 64, CHILD_EVERY = 16, LIFE_S = 8, IDLE_S = 1 };

static uint64_t (*pages)[WORDS];
static uint64_t count, hot;

/* The last round in which a page was written. */
static uint64_t version_of(uint64_t page, uint64_t round)
{
	return page < hot ? last_written(page, round, EVERY) : 0;
}

static void fill(uint64_t page, uint64_t version)
{
	fill_words(pages[page], 0, page, version);
}

static void check(uint64_t page, uint64_t version, uint64_t round, const char *who)
{
	for (uint64_t i = 0; i < WORDS; i++) {
		if (pages[page][i] == word_of(0, page, version, i))
			continue;
		fprintf(stderr, "WRONG: %s: page %lu, word %lu, round %lu: not version %lu\n", who,
			page, i, round, version);
		exit(1);
	}
}

static void check_all(uint64_t round, const char *who)
{
	for (uint64_t page = 0; page < count; page++)
		check(page, version_of(page, round), round, who);
}

/* A child has the same pages until one of the two writes. */
static void check_in_child(uint64_t round)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child) {
		check_all(round, "child");
		fill(round % count, 0); /* a copy of its own */
		check(round % count, 0, round, "child's own");
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
}

/* The last one has ended well, or still lives; if it has ended there is a new one. */
static void keep_child(uint64_t round)
{
	static pid_t child;
	int status;

	if (child && !waitpid(child, &status, WNOHANG))
		return;
	if (child && status)
		exit(1);
	/* Until scans have marked pages, which a use would unmark: they are shared marked. */
	sleep(IDLE_S);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		sleep(LIFE_S);
		check_all(round, "child that has waited");
		_exit(0);
	}
}

/* The kernel reads a page, and writes another one: the content of the first goes to the
 * second, and back after that has lost its own.
 */
static void through_kernel(uint64_t round, int file)
{
	uint64_t page = round * 7 % hot;
	uint64_t version = version_of(page, round);

	if (pwrite(file, pages[page], sizeof(*pages), 0) != sizeof(*pages))
		fail("pwrite");
	memset(pages[page], 0xff, sizeof(*pages));
	if (pread(file, pages[page], sizeof(*pages), 0) != sizeof(*pages))
		fail("pread");
	check(page, version, round, "through the kernel");
}

int main(int argc, char **argv)
{
	uint64_t round, page;
	unsigned int pause_us, children, lock_at;
	int progress, file;
	char name[] = "/tmp/working-set.XXXXXX";

	if (argc < 4)
		return 2;
	count = strtoull(argv[1], NULL, 10);
	hot = strtoull(argv[2], NULL, 10);
	pause_us = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
	children = argc > 5 ? strtoul(argv[5], NULL, 10) : 1;
	lock_at = argc > 6 ? strtoul(argv[6], NULL, 10) : 0;
	progress = open_progress(argv[3]);
	file = mkstemp(name);
	pages = mmap(NULL, count * sizeof(*pages), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (file < 0 || pages == MAP_FAILED || !hot || hot > count)
		fail("working_set");
	unlink(name);
	for (page = 0; page < count; page++)
		fill(page, 0);
	for (round = 1;; round++) {
		for (page = 0; page < hot; page++) {
			if (version_of(page, round) == round)
				fill(page, round);
			else
				check(page, version_of(page, round), round, "hot");
		}
		for (int i = 0; i < SAMPLES && hot < count; i++) {
			page = hot + any(count - hot);
			check(page, 0, round, "cold");
		}
		if (round == lock_at && mlockall(MCL_CURRENT | MCL_FUTURE))
			fail("mlockall");
		through_kernel(round, file);
		if (children == 1 && round % CHILD_EVERY == 0)
			check_in_child(round);
		if (children == 2 && round >= EVERY)
			keep_child(round);
		report(progress, round);
		if (pause_us)
			usleep(pause_us);
	}
}
