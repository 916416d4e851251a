// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A table of rows in order: a treap, whose shape depends on its keys only. Of
 * two operations one reads the row of the least key from a given one on, the
 * other inserts a row or removes one: half of all keys are there.
 */
#include "../objects.h"

#include <stdlib.h>
#include <string.h>

#define ROW_WORDS 26
#define NODE_BYTES 272 /* with what an allocator adds, about */

struct node {
	object less, more;
	uint64_t key;
	uint64_t row[ROW_WORDS];
};

struct index {
	object top;
	uint64_t keys; /* that may be there */
	uint64_t count;
};

const char work_name[] = "tree";
static object root;
static uint64_t found, step, answer[ROW_WORDS];

static uint64_t rank(uint64_t key)
{
	return mix(key ^ 0x7265616e6b);
}

static void find(uint64_t key)
{
	struct index *index = at(root);
	object it = index->top;
	struct node *least = NULL;

	while (!is_nothing(it)) {
		struct node *node = at(it);

		if (node->key < key) {
			it = node->more;
			continue;
		}
		least = node;
		if (node->key == key)
			break;
		it = node->less;
	}
	if (!least)
		return;
	memcpy(answer, least->row, sizeof(answer));
	found += answer[step % ROW_WORDS];
}

static void set(object *link, object to)
{
	about_to_change(link, sizeof(*link));
	*link = to;
}

/* Two trees of the keys below and above @key; @it becomes both. */
static void split(object it, uint64_t key, object *less, object *more)
{
	while (!is_nothing(it)) {
		struct node *node = at(it);

		if (node->key < key) {
			set(less, it);
			less = &node->more;
			it = node->more;
		} else {
			set(more, it);
			more = &node->less;
			it = node->less;
		}
	}
	set(less, NOTHING);
	set(more, NOTHING);
}

/* One tree of two, all keys of the first being below those of the other. */
static void join(object *link, object less, object more)
{
	while (!is_nothing(less) && !is_nothing(more)) {
		struct node *first = at(less), *other = at(more);

		if (rank(first->key) > rank(other->key)) {
			set(link, less);
			link = &first->more;
			less = first->more;
		} else {
			set(link, more);
			link = &other->less;
			more = other->less;
		}
	}
	set(link, is_nothing(less) ? more : less);
}

static void count(struct index *index, uint64_t more)
{
	about_to_change(&index->count, sizeof(index->count));
	index->count += more;
}

/* Inserts the key, or removes it if it is there. */
static void change(uint64_t key)
{
	struct index *index = at(root);
	object *link = &index->top;
	struct node *node;
	object it;

	while (!is_nothing(*link)) {
		node = at(*link);
		if (rank(node->key) <= rank(key))
			break;
		link = node->key < key ? &node->more : &node->less;
	}
	it = *link;
	node = is_nothing(it) ? NULL : at(it);
	if (node && node->key == key) {
		join(link, node->less, node->more);
		count(index, UINT64_MAX);
		objects_drop(it);
		return;
	}
	it = objects_make(sizeof(struct node));
	node = at(it);
	node->key = key;
	for (unsigned int i = 0; i < ROW_WORDS; i++)
		node->row[i] = key + i;
	split(*link, key, &node->less, &node->more);
	set(link, it);
	count(index, 1);
}

void work_begin(size_t bytes)
{
	struct index *index;

	root = objects_root(sizeof(struct index));
	index = at(root);
	index->top = NOTHING;
	index->keys = 2 * bytes / NODE_BYTES;
	for (uint64_t i = 0; i < index->keys; i += 2)
		change(mix(i) % index->keys);
}

void work_go_on(uint64_t operations)
{
	uint64_t keys = ((struct index *)at(root))->keys;

	for (uint64_t i = 0; i < operations; i++, step++) {
		uint64_t key = skewed(mix(~step), keys);

		if (step & 1)
			OPERATION(change(key));
		else
			find(key);
		other_work();
	}
}

/* Each key is there once, in order, and below one of higher rank. */
static uint64_t walk(object it, uint8_t *odd, uint64_t *last, uint64_t high)
{
	struct node *node;
	uint64_t digest;

	if (is_nothing(it))
		return 0;
	node = at(it);
	if (rank(node->key) > high || node->row[2] != node->key + 2)
		objects_fail("a node");
	digest = walk(node->less, odd, last, rank(node->key));
	if (node->key < *last || !odd[node->key])
		objects_fail("a key");
	*last = node->key + 1;
	odd[node->key] = 0;
	digest = fold(digest, node->key);
	return digest + walk(node->more, odd, last, rank(node->key));
}

uint64_t work_check(void)
{
	struct index *index = at(root);
	uint8_t *odd = calloc(index->keys, 1);
	uint64_t digest, last = 0;

	if (!odd)
		objects_fail("memory");
	for (uint64_t i = 0; i < index->keys; i += 2)
		odd[mix(i) % index->keys] ^= 1;
	for (uint64_t i = 1; i < step; i += 2)
		odd[skewed(mix(~i), index->keys)] ^= 1;
	for (uint64_t key = 0; key < index->keys; key++)
		last += odd[key];
	if (last != index->count)
		objects_fail("the number of keys");
	last = 0;
	digest = walk(index->top, odd, &last, UINT64_MAX);
	for (uint64_t key = 0; key < index->keys; key++)
		if (odd[key])
			objects_fail("a key that is lost");
	free(odd);
	return fold(digest, found);
}
