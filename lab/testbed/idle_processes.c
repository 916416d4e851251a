// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Processes that do nothing most of the time, each of which would notice a page with an old
 * content.
 *
 *     idle_processes PROCESSES PAGES PROGRESS
 *
 * Each has PAGES pages, stores to them, and waits. On SIGUSR1 the parent wakes all, one after the
 * other: a process checks its pages, stores what they have to hold in the next round, and waits
 * again. When all have, the parent writes the number of the round to PROGRESS. The first two rounds
 * come by themselves. It ends with a line on stderr, and exit code 1, at the first difference.
 */
#include "page_words.h"

#include <signal.h>
#include <sys/mman.h>

typedef uint64_t page_t[WORDS];

static uint64_t count;

static void wait_for(int number)
{
	sigset_t set;
	int found;

	sigemptyset(&set);
	sigaddset(&set, number);
	if (sigwait(&set, &found))
		fail("sigwait");
}

static page_t *map(void)
{
	page_t *pages = mmap(NULL, count * BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		fail("mmap");
	return pages;
}

static void check(page_t *pages, uint64_t process, uint64_t round)
{
	for (uint64_t page = 0; page < count; page++)
		for (uint64_t i = 0; i < WORDS; i++)
			if (pages[page][i] !=
			    word_of(1, process * count + page, round, i)) {
				fprintf(stderr,
					"WRONG: process %lu, page %lu, word %lu, round %lu\n",
					process, page, i, round);
				exit(1);
			}
}

static void live(uint64_t process, int done)
{
	page_t *pages = map();

	for (uint64_t round = 1;; round++) {
		if (round > 1)
			check(pages, process, round - 1);
		for (uint64_t page = 0; page < count; page++)
			fill_words(pages[page], 1, process * count + page,
				   round);
		if (write(done, "", 1) != 1)
			fail("write");
		wait_for(SIGUSR1);
	}
}

static pid_t bear(uint64_t process, int done)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child)
		live(process, done);
	return child;
}

static void wait_done(int done)
{
	char byte;

	if (read(done, &byte, 1) != 1)
		fail("read");
}

/* None ends but by a difference, which it has told, or by a signal. */
static void ended(int number)
{
	(void)number;
	_exit(1);
}

int main(int argc, char **argv)
{
	uint64_t processes, process;
	int progress, ends[2];
	sigset_t set;
	pid_t *children;

	if (argc < 4)
		return 2;
	processes = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	progress = open_progress(argv[3]);
	children = calloc(processes, sizeof(*children));
	if (!count || !children || pipe(ends))
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		fail("sigprocmask");
	signal(SIGCHLD, ended);
	for (process = 0; process < processes; process++) {
		children[process] = bear(process, ends[1]);
		wait_done(ends[0]);
	}
	report(progress, 1);
	for (uint64_t round = 2;; round++) {
		if (round > 2)
			wait_for(SIGUSR1);
		for (process = 0; process < processes; process++) {
			if (kill(children[process], SIGUSR1))
				fail("kill");
			wait_done(ends[0]);
		}
		report(progress, round);
	}
}
