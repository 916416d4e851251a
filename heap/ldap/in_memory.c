/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The tree in plain memory: nodes from malloc(), links are addresses, nothing
 * is logged or flushed. It is gone with the process; under Stop-and-Go it is
 * not.
 */
#include "directory.h"

#include <string.h>

struct memory {
	int unused;
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
	struct avl_root root;
};

static int memory_alloc(struct memory *memory, size_t bytes, uint64_t *ret_at)
{
	void *made = malloc(bytes);

	(void)memory;
	*ret_at = (uintptr_t)made;
	return made ? 0 : -ENOSPC;
}

static int in_memory_open(const struct directory_setup *setup,
			  struct directory **ret_directory)
{
	(void)setup;
	*ret_directory = calloc(1, sizeof(**ret_directory));
	return *ret_directory ? 0 : -ENOMEM;
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
	free_nodes(directory->root.top);
	free(directory);
}

static int in_memory_count(struct directory *directory, uint64_t *ret_count)
{
	*ret_count = directory->root.count;
	return 0;
}

static int in_memory_add(struct directory *directory, const char *key,
			 size_t key_bytes, const void *value,
			 size_t value_bytes)
{
	struct memory memory = { 0 };
	size_t bytes;
	struct avl_node *record =
		avl_record(key, key_bytes, value, value_bytes, &bytes);
	int err;

	if (!record)
		return -ENOMEM;
	err = avl_insert(&memory, (uintptr_t)&directory->root, key, record,
			 bytes);
	free(record);
	return err;
}

static int in_memory_find(struct directory *directory,
			  enum directory_which which, const char *key,
			  size_t key_bytes, struct directory_entry *ret_entry)
{
	struct memory memory = { 0 };

	return avl_look(&memory, (uintptr_t)&directory->root, which, key,
			key_bytes, ret_entry);
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
