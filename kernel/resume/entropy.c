// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 8: no replay of randomness. What the generator held at the EP-cut
 * lies in NVRAM and could be read there; it must not decide a single byte after
 * Go. The contract is that of vmgenid: reseed before programs run.
 */
#include <linux/random.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <asm/archrandom.h>
#include <asm/tsc.h>
#include "../stop/stop.h"
#include "resume.h"

/**
 * rem_entropy_reseed - make random numbers differ from any other resumption
 *
 * The sequence is used by one Go only, the TSC and the clock tell when; where
 * the CPU has a generator, its words are what the seed is worth.
 *
 * Context: Go, any. Return: nothing.
 */
void rem_entropy_reseed(void)
{
	struct {
		unsigned long words[8];
		u64 tsc;
		u64 realtime_ns;
		u32 sequence;
		u32 resumes;
	} seed = {
		.tsc = rdtsc_ordered(),
		.realtime_ns = ktime_get_real_fast_ns(),
		.sequence = rem.sequence,
		.resumes = rem.resumes,
	};

	/* Zero words where there is no generator; the rest still differs. */
	if (!arch_get_random_seed_longs(seed.words, ARRAY_SIZE(seed.words)) &&
	    !arch_get_random_longs(seed.words, ARRAY_SIZE(seed.words)))
		memset(seed.words, 0, sizeof(seed.words));
	rem_random_reseed(&seed, sizeof(seed));
	memzero_explicit(&seed, sizeof(seed));
}
