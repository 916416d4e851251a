/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the programs here share. Each solves a problem whose size is given by
 * its options, checks what it has found and prints OK or FAIL (check.h). With
 * --planted 1 it changes one number of its result before it checks, and must
 * print FAIL.
 */
#ifndef WORKS_H
#define WORKS_H

#ifdef __cplusplus
#define _Noreturn __attribute__((noreturn)) /* C's word in check.h */
extern "C" {
#endif

#include "check.h"

#include <stdlib.h>

#ifdef __cplusplus
}
#endif

/* Zeros, for the rest of the program. */
static inline void *works_array(long count, size_t bytes)
{
	void *found = calloc((size_t)count, bytes);

	if (!found)
		check_fail("no memory for %ld times %zu bytes", count, bytes);
	return found;
}

static inline double *works_doubles(long count)
{
	return (double *)works_array(count, sizeof(double));
}

/* A number that is the same in each run, below @below. */
static inline uint64_t works_random(uint64_t *state, uint64_t below)
{
	*state = check_mix(*state);
	return *state % below;
}

#endif /* WORKS_H */
