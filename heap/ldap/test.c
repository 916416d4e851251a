/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The directory in a heap, and the one in a region of plain memory, do what the
 * one in malloc()'s memory does: the same random keys, looked up and walked
 * through in order, before and after the region is opened again.
 */
#include "directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 3000
#define KEY_BYTES_MAX 100
#define REGION_BYTES (16u << 20)

static const struct directory_kind *kinds[] = {
	&directory_in_memory,
	&directory_in_heap,
};

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", what, directory_in_heap.why());
	exit(1);
}

/* Few letters: keys are prefixes of each other, and some come twice. */
static size_t draw_key(uint64_t *random, char *key)
{
	size_t bytes;

	*random = *random * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
	bytes = 1 + (*random >> 33) % KEY_BYTES_MAX;
	if (*random >> 63)
		bytes = 1 + bytes % 6;
	for (size_t i = 0; i < bytes; i++) {
		*random = *random * 0x5851f42d4c957f2d + 0x14057b7ef767814f;
		key[i] = (char)('a' + (*random >> 61) % 3);
	}
	return bytes;
}

static void same(const struct directory_entry *a,
		 const struct directory_entry *b)
{
	expect(a->key_bytes == b->key_bytes &&
		       a->value_bytes == b->value_bytes &&
		       memcmp(a->key, b->key, a->key_bytes) == 0 &&
		       memcmp(a->value, b->value, a->value_bytes) == 0,
	       "another entry");
}

/* All entries in the order of their keys; returns their number. */
static uint64_t walk(struct directory **both)
{
	struct directory_entry last = { .key = calloc(1, 1) }, found[2] = { 0 };
	uint64_t count = 0;
	int err;

	expect(last.key != NULL, "no memory");
	for (;;) {
		err = kinds[0]->find(both[0], DIRECTORY_AFTER, last.key,
				     last.key_bytes, &found[0]);
		expect(kinds[1]->find(both[1], DIRECTORY_AFTER, last.key,
				      last.key_bytes, &found[1]) == err,
		       "another end");
		free(last.key);
		if (err) {
			expect(err == -ENOENT, "walk");
			return count;
		}
		same(&found[0], &found[1]);
		free(found[1].key);
		last = found[0];
		count++;
	}
}

static void fill(struct directory **both)
{
	uint64_t random = 1;

	for (uint64_t number = 0; number < ENTRIES; number++) {
		char key[KEY_BYTES_MAX], value[2 * KEY_BYTES_MAX] = { 0 };
		size_t bytes = draw_key(&random, key);
		size_t value_bytes = 1 + number % sizeof(value);
		int err;

		memcpy(value, &number,
		       value_bytes < 8 ? value_bytes : sizeof(number));
		err = kinds[0]->add(both[0], key, bytes, value, value_bytes);
		expect(err == 0 || err == -EEXIST, "add");
		expect(kinds[1]->add(both[1], key, bytes, value, value_bytes) ==
			       err,
		       "another answer");
	}
}

static void compare(const struct directory_kind *kind, const char *region)
{
	struct directory_setup setup = { .region = region,
					 .policy = "FoC+RL",
					 .size_bytes = REGION_BYTES };
	struct directory *both[2];
	uint64_t count;

	kinds[1] = kind;
	for (int i = 0; i < 2; i++)
		expect(!kinds[i]->open(&setup, &both[i]), "open");
	fill(both);
	expect(!kinds[0]->count(both[0], &count) && count > ENTRIES / 2,
	       "count");
	expect(walk(both) == count, "walk");
	kinds[1]->close(both[1]);
	expect(!kinds[1]->open(&setup, &both[1]), "open again");
	expect(walk(both) == count, "walk again");
	for (int i = 0; i < 2; i++)
		kinds[i]->close(both[i]);
}

int main(int argc, char **argv)
{
	expect(argc == 3, "usage");
	compare(&directory_in_heap, argv[1]);
	compare(&directory_in_region, argv[2]);
	return 0;
}
