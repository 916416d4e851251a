/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A directory: entries as bytes, ordered by their keys, in an AVL tree that
 * lies in a persistent heap or in plain memory. Calls come one at a time. All
 * return 0 or a negative errno.
 */
#ifndef NVHEAP_DIRECTORY_H
#define NVHEAP_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

struct directory;

struct directory_setup {
	const char *region;
	const char *policy;
	uint64_t size_bytes;
};

/* An entry that was found; the caller frees `key`, which `value` is part of. */
struct directory_entry {
	char *key;
	char *value;
	size_t key_bytes;
	size_t value_bytes;
};

enum directory_which {
	DIRECTORY_EQUAL,
	DIRECTORY_AFTER,
};

struct directory_kind {
	int (*open)(const struct directory_setup *setup,
		    struct directory **ret_directory);
	void (*close)(struct directory *directory);
	int (*count)(struct directory *directory, uint64_t *ret_count);
	/* -EEXIST where the key is there. Durable on return, if anything is. */
	int (*add)(struct directory *directory, const char *key,
		   size_t key_bytes, const void *value, size_t value_bytes);
	/* -ENOENT where there is none. */
	int (*find)(struct directory *directory, enum directory_which which,
		    const char *key, size_t key_bytes,
		    struct directory_entry *ret_entry);
	const char *(*why)(void);
};

extern const struct directory_kind directory_in_heap;
extern const struct directory_kind directory_in_memory;
extern const struct directory_kind directory_in_region;

#endif
