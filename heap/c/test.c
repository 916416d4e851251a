// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The C library as a program sees it: commit, abort, re-entry, reopening, dangling. */
#include "nvheap.h"

#include <errno.h>
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

/* Each call that would end the transaction is refused, and it with them. */
static int again(struct nvheap_session *tx, void *context)
{
	nvheap_ptr root;
	uint64_t value;
	int *refused = context;

	if (nvheap_load(tx, counter, &value, sizeof(value)) < 0)
		return -1;
	value = 1000;
	nvheap_store(tx, counter, &value, sizeof(value));
	refused[0] = nvheap_run(tx, add, &value);
	refused[1] = nvheap_view(tx, add, &value);
	refused[2] = nvheap_root(tx, "counter", 0, &root);
	refused[3] = nvheap_root(tx, "another", 8, &root);
	refused[4] = nvheap_session_delete(tx);
	/* The session is as before, and so is the transaction. */
	return nvheap_load(tx, counter, &value, sizeof(value)) < 0 ||
			       value != 1000 ?
		       -1 :
		       0;
}

/* An object of 300,000 bytes, which no log holds, word by word. */
static int large(struct nvheap_session *tx, void *context)
{
	nvheap_ptr made;
	uint64_t word;
	int err = nvheap_alloc(tx, 300000, &made);

	for (word = 0; !err && word < 300000 / 8; word++)
		err = nvheap_store(tx, made + 8 * word, &word, 8);
	if (!err)
		err = nvheap_load(tx, made + 299992, context, 8);
	return err;
}

static void limits(const char *region)
{
	unsigned int flags = NVHEAP_ASSUME_PERSISTENT | NVHEAP_SESSIONS(9);
	unsigned int too_many = flags + NVHEAP_SESSIONS(440);
	struct nvheap_session *session[10];
	struct nvheap *heap;
	char path[4096];
	uint64_t last = 0;
	int policy;

	for (policy = NVHEAP_FOC_STM; policy <= NVHEAP_FOC_RL; policy++) {
		snprintf(path, sizeof(path), "%s.limits-%d", region, policy);
		expect(nvheap_create(path, 1 << 25, policy, too_many, &heap) ==
			       -EINVAL,
		       "too many sessions");
		expect(strstr(nvheap_why(), "448") != NULL, "most sessions");
		remove(path);
		expect(!nvheap_create(path, 1 << 25, policy, flags, &heap),
		       "create with sessions");
		for (int number = 0; number < 9; number++)
			expect(!nvheap_session_new(heap, &session[number]),
			       "a session");
		expect(nvheap_session_new(heap, &session[9]) == -EAGAIN,
		       "one session more");
		expect(strstr(nvheap_why(), "all 9 sessions") != NULL,
		       "which limit it is");
		expect(!nvheap_run(session[0], large, &last) && last == 37499,
		       "a large object");
		for (int number = 0; number < 9; number++)
			nvheap_session_delete(session[number]);
		expect(!nvheap_close(heap), "close");
		remove(path);
	}
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
	nvheap_ptr other;
	int seen = 0, refused[5] = { 0 };

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
	expect(nvheap_run(session, again, refused) == -EBUSY, "re-entry");
	for (int call = 0; call < 5; call++)
		expect(refused[call] == -EBUSY, "a call in a transaction");
	expect(nvheap_root(session, "another", 0, &other) == 0 && !other,
	       "no root of the refused call");
	expect(!nvheap_view(session, read_it, &value) && value == 5,
	       "nothing of the refused transaction");
	nvheap_session_delete(session);
	expect(!nvheap_close(heap), "close");
	limits(argv[1]);

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
