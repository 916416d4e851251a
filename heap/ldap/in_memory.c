/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The tree in plain memory: links are addresses, nothing is logged or flushed.
 * Nodes are from malloc(), and gone with the process; or from a region of plain
 * memory (FoF), which outlives a process that closes it. Under Stop-and-Go both
 * outlive the power.
 */
#include "directory.h"
#include "nvheap.h"

#include <string.h>

struct memory {
	struct nvheap_fof_local *local; /* none: malloc() */
};

static inline int memory_load(struct memory *memory, uint64_t at, void *to,
			      size_t bytes)
{
	(void)memory;
	memcpy(to, (const void *)(uintptr_t)at, bytes);
	return 0;
}

static inline int memory_store(struct memory *memory, uint64_t at,
			       const void *from, size_t bytes)
{
	(void)memory;
	memcpy((void *)(uintptr_t)at, from, bytes);
	return 0;
}

static int memory_alloc(struct memory *memory, size_t bytes, uint64_t *ret_at);

static inline int memory_compare(struct memory *memory, uint64_t at,
				 const char *key, size_t bytes, int *ret_order)
{
	(void)memory;
	*ret_order = memcmp(key, (const void *)(uintptr_t)at, bytes);
	return 0;
}

#include "avl.h"

struct directory {
	struct avl_root *root;
	struct nvheap_fof *region; /* none: malloc() */
	struct memory memory;
};

static int memory_alloc(struct memory *memory, size_t bytes, uint64_t *ret_at)
{
	void *made = NULL;
	int err = 0;

	if (memory->local)
		err = nvheap_fof_alloc(memory->local, bytes, &made);
	else
		made = malloc(bytes);
	*ret_at = (uintptr_t)made;
	return !err && !made ? -ENOSPC : err;
}

static int in_memory_open(const struct directory_setup *setup,
			  struct directory **ret_directory)
{
	struct directory *directory = calloc(1, sizeof(*directory));

	(void)setup;
	if (!directory)
		return -ENOMEM;
	directory->root = calloc(1, sizeof(*directory->root));
	if (!directory->root) {
		free(directory);
		return -ENOMEM;
	}
	*ret_directory = directory;
	return 0;
}

static void free_nodes(uint64_t at)
{
	struct avl_node *node = (struct avl_node *)(uintptr_t)at;

	if (!at)
		return;
	free_nodes(node->links.sides[0]);
	free_nodes(node->links.sides[1]);
	free(node);
}

static void in_memory_close(struct directory *directory)
{
	free_nodes(directory->root->top);
	free(directory->root);
	free(directory);
}

static void in_region_close(struct directory *directory)
{
	nvheap_fof_local_delete(directory->memory.local);
	nvheap_fof_close(directory->region);
	free(directory);
}

/* The root of a tree in the region; made if there is none. */
static int find_tree(struct directory *directory)
{
	uint64_t at = 0;
	void *found;
	int err = nvheap_fof_root(directory->region, "directory", &found);

	if (!err && !found) {
		err = memory_alloc(&directory->memory, sizeof(struct avl_root),
				   &at);
		found = (void *)(uintptr_t)at;
		if (!err) {
			memset(found, 0, sizeof(struct avl_root));
			err = nvheap_fof_set_root(directory->region,
						  "directory", found);
		}
	}
	directory->root = found;
	return err;
}

static int in_region_open(const struct directory_setup *setup,
			  struct directory **ret_directory)
{
	/* This policy in the configuration asserts the promise. */
	unsigned int flags = NVHEAP_ASSUME_FLUSH_ON_FAIL;
	struct directory *directory = calloc(1, sizeof(*directory));
	int err;

	if (!directory)
		return -ENOMEM;
	err = nvheap_fof_open(setup->region, flags, &directory->region);
	if (err == -ENOENT)
		err = nvheap_fof_create(setup->region, setup->size_bytes, flags,
					&directory->region);
	if (!err)
		err = nvheap_fof_local_new(directory->region,
					   &directory->memory.local);
	if (!err)
		err = find_tree(directory);
	if (err)
		in_region_close(directory);
	else
		*ret_directory = directory;
	return err;
}

static int in_memory_count(struct directory *directory, uint64_t *ret_count)
{
	*ret_count = directory->root->count;
	return 0;
}

static int in_memory_add(struct directory *directory, const char *key,
			 size_t key_bytes, const void *value,
			 size_t value_bytes)
{
	size_t bytes;
	struct avl_node *record =
		avl_record(key, key_bytes, value, value_bytes, &bytes);
	int err;

	if (!record)
		return -ENOMEM;
	err = avl_insert(&directory->memory, (uintptr_t)directory->root, key,
			 record, bytes);
	free(record);
	return err;
}

static int in_memory_find(struct directory *directory,
			  enum directory_which which, const char *key,
			  size_t key_bytes, struct directory_entry *ret_entry)
{
	return avl_look(&directory->memory, (uintptr_t)directory->root, which,
			key, key_bytes, ret_entry);
}

static const char *in_memory_why(void)
{
	return "no memory";
}

const struct directory_kind directory_in_memory = {
	.open = in_memory_open,
	.close = in_memory_close,
	.count = in_memory_count,
	.add = in_memory_add,
	.find = in_memory_find,
	.why = in_memory_why,
};

const struct directory_kind directory_in_region = {
	.open = in_region_open,
	.close = in_region_close,
	.count = in_memory_count,
	.add = in_memory_add,
	.find = in_memory_find,
	.why = nvheap_why,
};
