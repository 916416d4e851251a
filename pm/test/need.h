/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Memory for tests, and random numbers. */
#ifndef PM_NEED_H
#define PM_NEED_H

#include <stdio.h>
#include <stdlib.h>

/* Returns memory, or exits with status 4. */
static inline void *need(void *memory)
{
	if (!memory) {
		perror("memory for a test");
		exit(4);
	}
	return memory;
}

/* splitmix64: the same numbers on every machine. */
static inline unsigned long random_next(unsigned long *seed)
{
	unsigned long z = *seed += 0x9e3779b97f4a7c15ul;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
	z = (z ^ z >> 27) * 0x94d049bb133111ebul;
	return z ^ z >> 31;
}

#endif /* PM_NEED_H */
