// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * NAME POOL KIB: makes a work's objects (of libpmemobj in the file POOL, which
 * must not be there) and says READY. Then each line of its input is a number
 * of operations, and how many instructions of other work each of them does: it
 * does them in PIECES, and says DONE with the nanoseconds that it has run in
 * each. On "settle" it sleeps for a while and says SETTLED. At the end of its
 * input, or another line, it checks all results and says OK with their digest;
 * if anything is wrong, FAIL.
 */
#include "objects.h"

#include "../works/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define POOL_PARTS 4 /* of a pool; one of them is the work's memory */
#define POOL_LEAST (64UL << 20)
#define LINE_BYTES 64
#define PIECES 16
#define SETTLE_NS 20000000 /* all buffers of an Optane DIMM take 7.4 ms */

uint64_t other_work_turns;
volatile uint64_t other_work_result;

void objects_fail(const char *what)
{
	printf("FAIL %s %s\n", work_name, what);
	exit(1);
}

#ifdef OBJECTS

PMEMobjpool *objects_pool;
bool objects_setting_up = true;

object objects_make(size_t bytes)
{
	object made;

#ifdef TRANSACTIONS
	if (!objects_setting_up)
		return pmemobj_tx_alloc(bytes, 1);
#endif
	if (pmemobj_alloc(objects_pool, &made, bytes, 1, NULL, NULL))
		objects_fail("memory");
	return made;
}

void objects_drop(object it)
{
#ifdef TRANSACTIONS
	if (!objects_setting_up) {
		if (pmemobj_tx_free(it))
			objects_fail("an object that cannot be freed");
		return;
	}
#endif
	pmemobj_free(&it);
}

object objects_root(size_t bytes)
{
	object root = pmemobj_root(objects_pool, bytes);

	if (is_nothing(root))
		objects_fail("the first object");
	return root;
}

static void open_pool(const char *path, size_t bytes)
{
	size_t pool_bytes = bytes * POOL_PARTS;

	if (pool_bytes < POOL_LEAST)
		pool_bytes = POOL_LEAST;
	objects_pool = pmemobj_create(path, work_name, pool_bytes, 0600);
	if (!objects_pool)
		objects_fail(pmemobj_errormsg());
}

static void set_up_is_over(void)
{
	objects_setting_up = false;
}

#else

object objects_root(size_t bytes)
{
	object root = calloc(1, bytes);

	if (!root)
		objects_fail("memory");
	return root;
}

static void open_pool(const char *path, size_t bytes)
{
	(void)path;
	(void)bytes;
}

static void set_up_is_over(void)
{
}

#endif

/* The time in which it had the CPU. */
static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Memory does meanwhile what it has put off, such as an Optane's writes. */
static void settle(void)
{
	const struct timespec while_ns = { .tv_nsec = SETTLE_NS };

	nanosleep(&while_ns, NULL);
	printf("SETTLED\n");
}

/* A line of two numbers. */
static bool asked_for(uint64_t *operations, uint64_t *instructions)
{
	char line[LINE_BYTES];

	while (line_wait(line, sizeof(line))) {
		if (strcmp(line, "settle"))
			return sscanf(line, "%" SCNu64 " %" SCNu64, operations,
				      instructions) == 2;
		settle();
	}
	return false;
}

static void do_pieces(uint64_t operations)
{
	int64_t took_ns[PIECES];

	for (int i = 0; i < PIECES; i++) {
		int64_t begin_ns = now_ns();

		work_go_on(operations / PIECES);
		took_ns[i] = now_ns() - begin_ns;
	}
	printf("DONE");
	for (int i = 0; i < PIECES; i++)
		printf(" %" PRId64, took_ns[i]);
	printf("\n");
}

int main(int argc, char **argv)
{
	uint64_t operations, instructions;
	size_t bytes;

	if (argc != 3) {
		fprintf(stderr, "usage: %s POOL KIB\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	bytes = strtoul(argv[2], NULL, 10) << 10;
	open_pool(argv[1], bytes);
	work_begin(bytes);
	set_up_is_over();
	printf("READY %s\n", work_name);
	while (asked_for(&operations, &instructions)) {
		other_work_turns = instructions / OTHER_WORK_TURN;
		do_pieces(operations);
	}
	printf("OK %s digest=%" PRIu64 "\n", work_name, work_check());
	return 0;
}
