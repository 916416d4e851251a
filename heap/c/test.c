// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The C library as a program sees it: commit, abort, reopening, dangling. */
#include "nvheap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nvheap_ptr counter;

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", what, nvheap_why());
	exit(1);
}

static int add(struct nvheap_session *tx, void *context)
{
	uint64_t value;

	if (nvheap_load(tx, counter, &value, sizeof(value)) < 0)
		return -1;
	value += *(uint64_t *)context;
	return nvheap_store(tx, counter, &value, sizeof(value));
}

static int add_and_abort(struct nvheap_session *tx, void *context)
{
	add(tx, context);
	return -77;
}

static int bad_pointer(struct nvheap_session *tx, void *context)
{
	uint64_t value;

	(void)context;
	nvheap_load(tx, 8, &value, sizeof(value));
	return 0; /* the failure counts all the same */
}

static int read_it(struct nvheap_session *tx, void *context)
{
	return nvheap_load(tx, counter, context, 8);
}

static void count_dangling(nvheap_ptr object, uint64_t word, uint64_t address,
			   const char *mapping, void *context)
{
	(void)address;
	(void)mapping;
	if (object == counter && word == 0)
		*(int *)context += 1;
}

int main(int argc, char **argv)
{
	struct nvheap_session *session;
	struct nvheap *heap;
	uint64_t five = 5, value = 0, address = (uint64_t)&value;
	unsigned int flags = NVHEAP_ASSUME_PERSISTENT;
	int seen = 0;

	expect(argc == 2, "usage");
	expect(!nvheap_create(argv[1], 1 << 24, NVHEAP_FOC_UL, flags, &heap),
	       "create");
	expect(nvheap_policy(heap) == NVHEAP_FOC_UL, "policy");
	expect(!nvheap_session_new(heap, &session), "session");
	expect(!nvheap_root(session, "counter", 8, &counter), "root");
	expect(!nvheap_run(session, add, &five), "commit");
	expect(nvheap_run(session, add_and_abort, &five) == -77, "abort");
	expect(nvheap_run(session, bad_pointer, NULL) < 0, "bad pointer");
	expect(nvheap_store(session, counter, &five, 8) < 0, "no transaction");
	nvheap_session_delete(session);
	expect(!nvheap_close(heap), "close");

	expect(!nvheap_open(argv[1], flags, &heap), "open");
	expect(!nvheap_session_new(heap, &session), "session");
	expect(!nvheap_root(session, "counter", 0, &counter), "root again");
	expect(!nvheap_view(session, read_it, &value) && value == 5, "value");
	expect(nvheap_check_dangling(heap, count_dangling, &seen) == 0,
	       "none dangles");
	expect(!nvheap_run(session, add, &address), "an address");
	expect(nvheap_check_dangling(heap, count_dangling, &seen) == 1 &&
		       seen == 1,
	       "the address is found");
	nvheap_session_delete(session);
	return nvheap_close(heap);
}
