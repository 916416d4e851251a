// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 8: no replay of randomness. The state of the generator lies in NVRAM
 * and could be read there while power was off, so no output after Go may depend
 * on it alone. As with vmgenid, the generator is reseeded before programs run.
 */
#include <linux/random.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <asm/cpufeature.h>
#include <asm/archrandom.h>
#include "../hooks/hooks.h"
#include "../machine.h"

/**
 * rem_entropy_reseed - make random numbers differ from those of any other Go
 *
 * The sequence is used by one Go only; TSC and clock differ, too. If the CPU has
 * a generator, the seed is as good as its output.
 *
 * Context: Go, any.
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
		.tsc = rem_ticks(),
		.realtime_ns = ktime_get_real_fast_ns(),
		.sequence = rem.sequence,
		.resumes = rem.resumes,
	};

	/* Zeros if there is no generator; the rest of the seed still differs. */
	if (!arch_get_random_seed_longs(seed.words, ARRAY_SIZE(seed.words)) &&
	    !arch_get_random_longs(seed.words, ARRAY_SIZE(seed.words)))
		memset(seed.words, 0, sizeof(seed.words));
	rem_random_reseed(&seed, sizeof(seed));
	memzero_explicit(&seed, sizeof(seed));
}
