/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The tree in a persistent heap: each call is one transaction. Links are
 * offsets, so that the region may lie anywhere when it is opened again.
 */
#include "directory.h"
#include "nvheap.h"

#include <string.h>
#include <strings.h>

/* A transaction that runs. */
struct memory {
	struct nvheap_session *tx;
};

static inline int memory_load(struct memory *memory, uint64_t at, void *to,
			      size_t bytes)
{
	return nvheap_load(memory->tx, at, to, bytes);
}

static inline int memory_store(struct memory *memory, uint64_t at,
			       const void *from, size_t bytes)
{
	return nvheap_store(memory->tx, at, from, bytes);
}

static inline int memory_alloc(struct memory *memory, size_t bytes,
			       uint64_t *ret_at)
{
	return nvheap_alloc(memory->tx, bytes, ret_at);
}

/* Keys differ early or in their last part: looked at piece by piece. */
#define PIECE_BYTES 64

static int memory_compare(struct memory *memory, uint64_t at, const char *key,
			  size_t bytes, int *ret_order)
{
	char piece[PIECE_BYTES];

	*ret_order = 0;
	for (size_t done = 0; done < bytes && *ret_order == 0;
	     done += PIECE_BYTES) {
		size_t left = bytes - done;
		size_t now = left < PIECE_BYTES ? left : PIECE_BYTES;
		/* What fills up a key is part of it as far as memory goes. */
		int err = memory_load(memory, at + done, piece,
				      (now + 7) & ~(size_t)7);

		if (err)
			return err;
		*ret_order = memcmp(key + done, piece, now);
	}
	return 0;
}

#include "avl.h"

struct directory {
	struct nvheap *heap;
	struct nvheap_session *session;
	nvheap_ptr root;
};

static const struct {
	const char *name;
	enum nvheap_policy policy;
} policies[] = {
	{ "FoC+STM", NVHEAP_FOC_STM }, { "FoC+UL", NVHEAP_FOC_UL },
	{ "FoC+RL", NVHEAP_FOC_RL },   { "FoF+STM", NVHEAP_FOF_STM },
	{ "FoF+UL", NVHEAP_FOF_UL },
};

static int policy_of(const char *name, enum nvheap_policy *ret_policy)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (strcasecmp(policies[i].name, name) == 0) {
			*ret_policy = policies[i].policy;
			return 0;
		}
	}
	return -EINVAL;
}

static void in_heap_close(struct directory *directory)
{
	nvheap_session_delete(directory->session);
	nvheap_close(directory->heap);
	free(directory);
}

/* Open the region; make it if there is none. */
static int open_region(const struct directory_setup *setup,
		       struct nvheap **ret_heap)
{
	/* A region and a policy in the configuration assert both promises. */
	unsigned int flags = NVHEAP_ASSUME_PERSISTENT |
			     NVHEAP_ASSUME_FLUSH_ON_FAIL;
	enum nvheap_policy policy;
	int err = policy_of(setup->policy, &policy);

	if (err)
		return err;
	err = nvheap_open(setup->region, flags, ret_heap);
	if (err != -ENOENT)
		return err;
	return nvheap_create(setup->region, setup->size_bytes, policy, flags,
			     ret_heap);
}

static int in_heap_open(const struct directory_setup *setup,
			struct directory **ret_directory)
{
	struct directory *directory = calloc(1, sizeof(*directory));
	int err;

	if (!directory)
		return -ENOMEM;
	err = open_region(setup, &directory->heap);
	if (!err)
		err = nvheap_session_new(directory->heap, &directory->session);
	if (!err)
		err = nvheap_root(directory->session, "directory",
				  sizeof(struct avl_root), &directory->root);
	if (err)
		in_heap_close(directory);
	else
		*ret_directory = directory;
	return err;
}

/* What a transaction works on; its body may run several times. */
struct work {
	struct directory *directory;
	const char *key;
	size_t key_bytes;
	const struct avl_node *record;
	size_t record_bytes;
	enum directory_which which;
	struct directory_entry *entry;
	uint64_t count;
};

static int add_body(struct nvheap_session *tx, void *context)
{
	struct work *work = context;
	struct memory memory = { tx };

	return avl_insert(&memory, work->directory->root, work->key,
			  work->record, work->record_bytes);
}

static int in_heap_add(struct directory *directory, const char *key,
		       size_t key_bytes, const void *value, size_t value_bytes)
{
	struct work work = { .directory = directory, .key = key };
	struct avl_node *record = avl_record(key, key_bytes, value, value_bytes,
					     &work.record_bytes);
	int err;

	if (!record)
		return -ENOMEM;
	work.record = record;
	err = nvheap_run(directory->session, add_body, &work);
	free(record);
	return err;
}

static int find_body(struct nvheap_session *tx, void *context)
{
	struct work *work = context;
	struct directory_entry *entry = work->entry;
	struct memory memory = { tx };

	free(entry->key); /* of an earlier run */
	entry->key = NULL;
	return avl_look(&memory, work->directory->root, work->which, work->key,
			work->key_bytes, entry);
}

static int in_heap_find(struct directory *directory, enum directory_which which,
			const char *key, size_t key_bytes,
			struct directory_entry *ret_entry)
{
	struct work work = {
		.directory = directory,
		.key = key,
		.key_bytes = key_bytes,
		.which = which,
		.entry = ret_entry,
	};

	ret_entry->key = NULL;
	return nvheap_view(directory->session, find_body, &work);
}

static int count_body(struct nvheap_session *tx, void *context)
{
	struct work *work = context;

	return nvheap_load(
		tx, work->directory->root + offsetof(struct avl_root, count),
		&work->count, sizeof(work->count));
}

static int in_heap_count(struct directory *directory, uint64_t *ret_count)
{
	struct work work = { .directory = directory };
	int err = nvheap_view(directory->session, count_body, &work);

	*ret_count = work.count;
	return err;
}

const struct directory_kind directory_in_heap = {
	.open = in_heap_open,
	.close = in_heap_close,
	.count = in_heap_count,
	.add = in_heap_add,
	.find = in_heap_find,
	.why = nvheap_why,
};
