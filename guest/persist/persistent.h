/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A file in persistent memory, mapped: stores are durable once written back
 * and fenced (Linux: MAP_SYNC, Documentation/filesystems/dax.rst).
 */
#ifndef PERSISTENT_H
#define PERSISTENT_H

#include <stddef.h>
#include <stdint.h>

#define LINE_BYTES 64

/*
 * Maps @bytes of the file, which is made and zeroed if it is not there. With
 * @is_volatile also where the file system promises nothing (tests on a host).
 */
void *persistent_map(const char *path, size_t bytes, int is_volatile);
/* Begins to write the lines of that memory back. */
void persistent_write_back(const void *from, size_t bytes);
/* All that was written back before is durable before what follows. */
void persistent_fence(void);

#endif /* PERSISTENT_H */
