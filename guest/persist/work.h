/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that `rem bench persist` runs to their end across a power failure.
 *
 * A program has its state in its own variables and on its stack, asks the
 * kernel for nothing while it works, and ends with a digest of all it has
 * computed, which depends on nothing but its size.
 */
#ifndef WORK_H
#define WORK_H

#include <stddef.h>
#include <stdint.h>

/* Of the program that is linked. */
extern const char work_name[];
/* Works for a time that grows with @rounds; the digest. */
uint64_t work(uint64_t rounds);

/* splitmix64. */
static inline uint64_t work_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static inline uint64_t work_fold(uint64_t digest, uint64_t value)
{
	return work_mix(digest ^ value);
}

#endif /* WORK_H */
