// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A key-value store: a hash table with chains, of records as YCSB has them. A
 * request has a key as text. Of two requests one reads a record into an
 * answer; the other inserts a record, or removes the one that is there.
 */
#include "../objects.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 24
#define VALUE_BYTES 968
#define NODE_BYTES 1056 /* with what an allocator adds, about */

struct node {
	object next;
	char name[NAME_BYTES];
	char value[VALUE_BYTES];
};

struct table {
	uint64_t mask;
	uint64_t keys; /* that may be there */
	uint64_t count;
	object buckets; /* of references */
};

const char work_name[] = "table";
static object root;
static uint64_t found, step;
static char answer[VALUE_BYTES];

static void name_of(uint64_t key, char *name)
{
	memset(name, 0, NAME_BYTES);
	memcpy(name, "user", 4);
	for (int i = 20; i > 3; i--, key /= 10)
		name[i] = (char)('0' + key % 10);
}

static uint64_t key_of(const char *name)
{
	return strtoul(name + 4, NULL, 10);
}

/* A bucket's first reference: FNV-1a of the name. */
static object *bucket_of(struct table *table, const char *name)
{
	object *buckets = at(table->buckets);
	uint64_t hash = 0xcbf29ce484222325;

	for (int i = 0; i < NAME_BYTES; i++)
		hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3;
	return &buckets[hash & table->mask];
}

/* The reference to the record of that name, or the last one of its chain. */
static object *link_of(const char *name)
{
	object *link = bucket_of(at(root), name);

	while (!is_nothing(*link)) {
		struct node *node = at(*link);

		if (!memcmp(node->name, name, NAME_BYTES))
			break;
		link = &node->next;
	}
	return link;
}

static void find(const char *name)
{
	object it = *link_of(name);
	struct node *node;

	if (is_nothing(it)) {
		found++;
		return;
	}
	node = at(it);
	memcpy(answer, node->value, VALUE_BYTES);
	found += (uint64_t)answer[step % VALUE_BYTES];
}

static void insert(object *link, const char *name)
{
	struct table *table = at(root);
	object it = objects_make(sizeof(struct node));
	struct node *node = at(it);

	memcpy(node->name, name, NAME_BYTES);
	memset(node->value, name[20], VALUE_BYTES);
	node->next = NOTHING;
	about_to_change(link, sizeof(*link));
	*link = it;
	about_to_change(&table->count, sizeof(table->count));
	table->count++;
}

static void take_out(object *link)
{
	struct table *table = at(root);
	object it = *link;
	struct node *node = at(it);

	about_to_change(link, sizeof(*link));
	*link = node->next;
	about_to_change(&table->count, sizeof(table->count));
	table->count--;
	objects_drop(it);
}

static void change(const char *name)
{
	object *link = link_of(name);

	if (is_nothing(*link))
		insert(link, name);
	else
		take_out(link);
}

static void change_key(uint64_t key)
{
	char name[NAME_BYTES];

	name_of(key, name);
	change(name);
}

void work_begin(size_t bytes)
{
	uint64_t buckets = 1;
	struct table *table;

	root = objects_root(sizeof(struct table));
	table = at(root);
	table->keys = 2 * bytes / NODE_BYTES;
	while (buckets < table->keys / 2)
		buckets *= 2;
	table->mask = buckets - 1;
	table->buckets = objects_make(buckets * sizeof(object));
	memset(at(table->buckets), 0, buckets * sizeof(object));
	for (uint64_t key = 0; key < table->keys; key += 2)
		change_key(key);
}

void work_go_on(uint64_t operations)
{
	uint64_t keys = ((struct table *)at(root))->keys;

	for (uint64_t i = 0; i < operations; i++, step++) {
		char name[NAME_BYTES];

		name_of(skewed(mix(~step), keys), name);
		if (step & 1)
			OPERATION(change(name));
		else
			find(name);
		other_work();
	}
}

/* What is there is what was inserted an odd number of times. */
uint64_t work_check(void)
{
	struct table *table = at(root);
	uint8_t *odd = calloc(table->keys, 1);
	object *buckets = at(table->buckets);
	uint64_t digest = 0, count = 0;

	if (!odd)
		objects_fail("memory");
	for (uint64_t key = 0; key < table->keys; key += 2)
		odd[key] = 1;
	for (uint64_t i = 1; i < step; i += 2)
		odd[skewed(mix(~i), table->keys)] ^= 1;
	for (uint64_t i = 0; i <= table->mask; i++) {
		for (object it = buckets[i]; !is_nothing(it); count++) {
			struct node *node = at(it);
			uint64_t key = key_of(node->name);

			if (key >= table->keys || !odd[key] ||
			    node->value[VALUE_BYTES - 1] != node->name[20])
				objects_fail("an entry");
			odd[key] = 0;
			digest += mix(key);
			it = node->next;
		}
	}
	for (uint64_t key = 0; key < table->keys; key++)
		if (odd[key])
			objects_fail("a key that is lost");
	if (count != table->count)
		objects_fail("the number of entries");
	free(odd);
	return fold(digest, found);
}
