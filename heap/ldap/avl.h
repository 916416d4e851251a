/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The AVL tree, compiled once for each kind of memory. The file that includes
 * this one says how memory is reached:
 *
 *   struct memory;
 *   int memory_load(struct memory *, uint64_t at, void *to, size_t bytes);
 *   int memory_store(struct memory *, uint64_t at, const void *from, size_t);
 *   int memory_alloc(struct memory *, size_t bytes, uint64_t *ret_at);
 *   int memory_compare(struct memory *, uint64_t at, const char *key,
 *                      size_t bytes, int *ret_order);
 *
 * Heights of the two sides of a node differ by at most one.
 */
#ifndef NVHEAP_AVL_H
#define NVHEAP_AVL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "directory.h"

/* No tree in 2^48 bytes is higher (1.44 * 42). */
#define AVL_HEIGHT_MAX 64

/* The part of a node that rebalancing changes, in front. */
struct avl_links {
	uint64_t sides[2];
	uint64_t height;
};

/* Key and value follow, each filled up to a multiple of 8. */
struct avl_node {
	struct avl_links links;
	uint64_t key_bytes;
	uint64_t value_bytes;
};

struct avl_root {
	uint64_t top;
	uint64_t count;
};

static size_t avl_padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* The node as it will lie in memory; the caller frees it. */
static struct avl_node *avl_record(const char *key, size_t key_bytes,
				   const void *value, size_t value_bytes,
				   size_t *ret_bytes)
{
	size_t key_room = avl_padded(key_bytes);
	size_t bytes =
		sizeof(struct avl_node) + key_room + avl_padded(value_bytes);
	struct avl_node *node = calloc(1, bytes);

	if (!node)
		return NULL;
	node->links.height = 1;
	node->key_bytes = key_bytes;
	node->value_bytes = value_bytes;
	memcpy(node + 1, key, key_bytes);
	memcpy((char *)(node + 1) + key_room, value, value_bytes);
	*ret_bytes = bytes;
	return node;
}

/* As memcmp(), and what is a prefix of the other comes first. */
static int avl_order(struct memory *memory, uint64_t at,
		     const struct avl_node *node, const char *key,
		     size_t key_bytes, int *ret_order)
{
	size_t both = key_bytes < node->key_bytes ? key_bytes : node->key_bytes;
	int err = memory_compare(memory, at + sizeof(*node), key, both,
				 ret_order);

	if (!err && *ret_order == 0)
		*ret_order = (key_bytes > node->key_bytes) -
			     (key_bytes < node->key_bytes);
	return err;
}

static uint64_t avl_side(uint64_t at, int side)
{
	return at + (uint64_t)side * sizeof(uint64_t);
}

static int avl_height(struct memory *memory, uint64_t at, uint64_t *ret_height)
{
	*ret_height = 0;
	if (!at)
		return 0;
	return memory_load(memory, at + offsetof(struct avl_links, height),
			   ret_height, sizeof(*ret_height));
}

/* The height that the two sides give. */
static int avl_measure(struct memory *memory, struct avl_links *links)
{
	uint64_t left, right;
	int err = avl_height(memory, links->sides[0], &left);

	if (!err)
		err = avl_height(memory, links->sides[1], &right);
	if (!err)
		links->height = (left > right ? left : right) + 1;
	return err;
}

static int avl_put(struct memory *memory, uint64_t at,
		   const struct avl_links *links)
{
	return memory_store(memory, at, links, sizeof(*links));
}

/* The inner grandchild comes up over both. */
static int avl_rotate_twice(struct memory *memory, uint64_t link, uint64_t at,
			    struct avl_links *top, struct avl_links *child,
			    int down)
{
	int up = 1 - down;
	uint64_t child_at = top->sides[up], middle_at = child->sides[down];
	struct avl_links middle;
	int err = memory_load(memory, middle_at, &middle, sizeof(middle));

	if (err)
		return err;
	child->sides[down] = middle.sides[up];
	top->sides[up] = middle.sides[down];
	err = avl_measure(memory, child);
	if (!err)
		err = avl_measure(memory, top);
	middle.sides[down] = at;
	middle.sides[up] = child_at;
	middle.height =
		(top->height > child->height ? top->height : child->height) + 1;
	if (!err)
		err = avl_put(memory, at, top);
	if (!err)
		err = avl_put(memory, child_at, child);
	if (!err)
		err = avl_put(memory, middle_at, &middle);
	if (!err)
		err = memory_store(memory, link, &middle_at, sizeof(middle_at));
	return err;
}

/* The side other than `down` is too high: `at` goes down. */
static int avl_rotate(struct memory *memory, uint64_t link, uint64_t at,
		      struct avl_links *top, int down)
{
	int up = 1 - down;
	uint64_t child_at = top->sides[up], inner, outer;
	struct avl_links child;
	int err = memory_load(memory, child_at, &child, sizeof(child));

	if (!err)
		err = avl_height(memory, child.sides[down], &inner);
	if (!err)
		err = avl_height(memory, child.sides[up], &outer);
	if (err)
		return err;
	if (inner > outer)
		return avl_rotate_twice(memory, link, at, top, &child, down);
	top->sides[up] = child.sides[down];
	err = avl_measure(memory, top);
	child.sides[down] = at;
	child.height = (top->height > outer ? top->height : outer) + 1;
	if (!err)
		err = avl_put(memory, at, top);
	if (!err)
		err = avl_put(memory, child_at, &child);
	if (!err)
		err = memory_store(memory, link, &child_at, sizeof(child_at));
	return err;
}

/* One node on the way up; says whether its height stayed as it was. */
static int avl_mend(struct memory *memory, uint64_t link, bool *ret_done)
{
	struct avl_links links;
	uint64_t at, before, heights[2];
	int err = memory_load(memory, link, &at, sizeof(at));

	if (!err)
		err = memory_load(memory, at, &links, sizeof(links));
	for (int side = 0; side < 2 && !err; side++)
		err = avl_height(memory, links.sides[side], &heights[side]);
	if (err)
		return err;
	before = links.height;
	if (heights[0] > heights[1] + 1 || heights[1] > heights[0] + 1) {
		/* An insertion's rotation gives the height from before it. */
		*ret_done = true;
		return avl_rotate(memory, link, at, &links,
				  heights[0] > heights[1]);
	}
	links.height = (heights[0] > heights[1] ? heights[0] : heights[1]) + 1;
	*ret_done = links.height == before;
	return *ret_done ? 0 : avl_put(memory, at, &links);
}

/* Put a record in; -EEXIST where its key is there. */
static int avl_insert(struct memory *memory, uint64_t root_at, const char *key,
		      const struct avl_node *record, size_t bytes)
{
	uint64_t way[AVL_HEIGHT_MAX], at, count;
	uint64_t link = root_at + offsetof(struct avl_root, top);
	struct avl_node node;
	int depth = 0, order, err;
	bool done = false;

	for (;;) {
		err = memory_load(memory, link, &at, sizeof(at));
		if (err)
			return err;
		if (!at)
			break;
		err = memory_load(memory, at, &node, sizeof(node));
		if (!err)
			err = avl_order(memory, at, &node, key,
					record->key_bytes, &order);
		if (err)
			return err;
		if (order == 0)
			return -EEXIST;
		if (depth == AVL_HEIGHT_MAX)
			return -EUCLEAN;
		way[depth++] = link;
		link = avl_side(at, order > 0);
	}
	err = memory_alloc(memory, bytes, &at);
	if (!err)
		err = memory_store(memory, at, record, bytes);
	if (!err)
		err = memory_store(memory, link, &at, sizeof(at));
	link = root_at + offsetof(struct avl_root, count);
	if (!err)
		err = memory_load(memory, link, &count, sizeof(count));
	count += 1;
	if (!err)
		err = memory_store(memory, link, &count, sizeof(count));
	while (!err && !done && depth)
		err = avl_mend(memory, way[--depth], &done);
	return err;
}

/* The node of that key, or the first after it; 0 if there is none. */
static int avl_find(struct memory *memory, uint64_t root_at, bool after,
		    const char *key, size_t key_bytes, uint64_t *ret_at,
		    struct avl_node *ret_node)
{
	uint64_t link = root_at + offsetof(struct avl_root, top), at;
	struct avl_node node;
	int order, err;

	*ret_at = 0;
	for (;;) {
		err = memory_load(memory, link, &at, sizeof(at));
		if (err || !at)
			return err;
		err = memory_load(memory, at, &node, sizeof(node));
		if (!err)
			err = avl_order(memory, at, &node, key, key_bytes,
					&order);
		if (err)
			return err;
		if (after ? order < 0 : order == 0) {
			*ret_at = at;
			*ret_node = node;
			if (!after)
				return 0;
		}
		link = avl_side(at, after ? order >= 0 : order > 0);
	}
}

/* Key and value of a node in memory of their own. */
static int avl_copy(struct memory *memory, uint64_t at,
		    const struct avl_node *node, char **ret_bytes)
{
	size_t bytes =
		avl_padded(node->key_bytes) + avl_padded(node->value_bytes);
	char *copy = malloc(bytes + 1);
	int err;

	if (!copy)
		return -ENOMEM;
	err = memory_load(memory, at + sizeof(*node), copy, bytes);
	if (err)
		free(copy);
	else
		*ret_bytes = copy;
	return err;
}

/* A copy of the entry of that key, or of the first after it; or -ENOENT. */
static int avl_look(struct memory *memory, uint64_t root_at,
		    enum directory_which which, const char *key,
		    size_t key_bytes, struct directory_entry *ret_entry)
{
	struct avl_node node;
	uint64_t at;
	int err = avl_find(memory, root_at, which == DIRECTORY_AFTER, key,
			   key_bytes, &at, &node);

	if (!err && !at)
		err = -ENOENT;
	if (!err)
		err = avl_copy(memory, at, &node, &ret_entry->key);
	if (err)
		return err;
	ret_entry->value = ret_entry->key + avl_padded(node.key_bytes);
	ret_entry->key_bytes = node.key_bytes;
	ret_entry->value_bytes = node.value_bytes;
	return 0;
}

#endif
