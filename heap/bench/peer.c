// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The peer: libpmemobj's transactions and atomic allocations, used as its
 * manual and its example hashmap_tx use them. The same hash function, number
 * of buckets, node and counter as nvheap's table.
 */
#include "peer.h"

#include <errno.h>
#include <libpmemobj.h>
#include <string.h>

POBJ_LAYOUT_BEGIN(remheap_peer);
POBJ_LAYOUT_ROOT(remheap_peer, struct root);
POBJ_LAYOUT_TOID(remheap_peer, struct node);
POBJ_LAYOUT_END(remheap_peer);

#define COUNTERS 8 /* as in nvheap: a line apart */

struct node {
	TOID(struct node) next;
	uint64_t key;
	uint64_t value;
};

struct root {
	uint64_t words[16];
	PMEMoid object;
	uint64_t mask;
	PMEMoid buckets;
	uint64_t counters[COUNTERS * 8];
};

static PMEMobjpool *pool;
static TOID(struct root) root;

static uint64_t mix(uint64_t word)
{
	word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
	word = (word ^ word >> 27) * 0x94d049bb133111eb;
	return word ^ word >> 31;
}

const char *peer_error(void)
{
	return pmemobj_errormsg();
}

int peer_open(const char *path, size_t size_bytes, uint64_t buckets)
{
	PMEMoid table;

	pool = pmemobj_create(path, POBJ_LAYOUT_NAME(remheap_peer), size_bytes,
			      0600);
	if (!pool)
		return -errno;
	root = POBJ_ROOT(pool, struct root);
	if (TOID_IS_NULL(root))
		return -ENOMEM;
	if (pmemobj_zalloc(pool, &table, buckets * sizeof(PMEMoid), 1))
		return -ENOMEM;
	TX_BEGIN(pool)
	{
		TX_ADD(root);
		D_RW(root)->buckets = table;
		D_RW(root)->mask = buckets - 1;
	}
	TX_END
	return D_RO(root)->mask == buckets - 1 ? 0 : -EIO;
}

void peer_close(void)
{
	pmemobj_close(pool);
}

int peer_set(uint64_t value)
{
	volatile int done = -1; /* set beyond a setjmp() */

	TX_BEGIN(pool)
	{
		TX_ADD_FIELD(root, words[0]);
		D_RW(root)->words[0] = value;
	}
	TX_ONCOMMIT
	{
		done = 0;
	}
	TX_END
	return done;
}

/* Words in two lines. */
int peer_swap(void)
{
	volatile int done = -1; /* set beyond a setjmp() */
	uint64_t *words = D_RW(root)->words;

	TX_BEGIN(pool)
	{
		uint64_t word;

		TX_ADD_FIELD(root, words[0]);
		TX_ADD_FIELD(root, words[8]);
		word = words[0];
		words[0] = words[8];
		words[8] = word;
	}
	TX_ONCOMMIT
	{
		done = 0;
	}
	TX_END
	return done;
}

/* Atomic: no transaction, the pointer in the root is set and cleared. */
int peer_alloc_free(size_t size_bytes)
{
	PMEMoid *object = &D_RW(root)->object;

	if (pmemobj_alloc(pool, object, size_bytes, 1, NULL, NULL))
		return -1;
	pmemobj_free(object);
	return 0;
}

static TOID(struct node) * bucket(uint64_t hash)
{
	TOID(struct node) *buckets = pmemobj_direct(D_RO(root)->buckets);

	return &buckets[hash & D_RO(root)->mask];
}

int peer_insert(uint64_t key, uint64_t value)
{
	uint64_t hash = mix(key);
	uint64_t *counter = &D_RW(root)->counters[(hash >> 61) * 8];
	TOID(struct node) *link = bucket(hash);
	volatile int done = -1; /* set beyond a setjmp() */

	while (!TOID_IS_NULL(*link)) {
		struct node *node = D_RW(*link);

		if (node->key == key) {
			TX_BEGIN(pool)
			{
				TX_ADD_DIRECT(&node->value);
				node->value = value;
			}
			TX_ONCOMMIT
			{
				done = 0;
			}
			TX_END
			return done;
		}
		link = &node->next;
	}
	TX_BEGIN(pool)
	{
		TOID(struct node) node = TX_NEW(struct node);

		D_RW(node)->key = key;
		D_RW(node)->value = value;
		D_RW(node)->next = TOID_NULL(struct node);
		TX_ADD_DIRECT(link);
		*link = node;
		TX_ADD_DIRECT(counter);
		*counter += 1;
	}
	TX_ONCOMMIT
	{
		done = 0;
	}
	TX_END
	return done;
}

int peer_remove(uint64_t key)
{
	uint64_t hash = mix(key);
	uint64_t *counter = &D_RW(root)->counters[(hash >> 61) * 8];
	TOID(struct node) *link = bucket(hash);
	volatile int done = -1; /* set beyond a setjmp() */

	while (!TOID_IS_NULL(*link) && D_RO(*link)->key != key)
		link = &D_RW(*link)->next;
	if (TOID_IS_NULL(*link))
		return 1;
	TX_BEGIN(pool)
	{
		TOID(struct node) node = *link;

		TX_ADD_DIRECT(link);
		*link = D_RO(node)->next;
		TX_ADD_DIRECT(counter);
		*counter -= 1;
		TX_FREE(node);
	}
	TX_ONCOMMIT
	{
		done = 0;
	}
	TX_END
	return done;
}

int peer_lookup(uint64_t key, uint64_t *value)
{
	TOID(struct node) node = *bucket(mix(key));

	while (!TOID_IS_NULL(node) && D_RO(node)->key != key)
		node = D_RO(node)->next;
	if (TOID_IS_NULL(node))
		return 1;
	*value = D_RO(node)->value;
	return 0;
}
