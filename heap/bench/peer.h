/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the benchmark asks of the peer, libpmemobj: the same operations as of nvheap. */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

int peer_open(const char *path, size_t size_bytes, uint64_t buckets);
void peer_close(void);
const char *peer_error(void);

/* Each returns 0 if the transaction committed. */
int peer_set(uint64_t value);
int peer_swap(void);
int peer_alloc_free(size_t size_bytes);
int peer_insert(uint64_t key, uint64_t value);
int peer_remove(uint64_t key);
int peer_lookup(uint64_t key, uint64_t *value);

#endif
