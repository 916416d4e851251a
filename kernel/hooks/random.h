/* SPDX-License-Identifier: GPL-2.0-only */
/* Included by drivers/char/random.c: reseeds the random number generator. */
#include "hooks.h"

/**
 * rem_random_reseed - mix a seed in and let every generator draw a new key
 * @seed: differs for each Go; not credited
 * @bytes: its size
 *
 * Like add_vmfork_randomness(), but without its notifiers, which may sleep.
 *
 * Context: any.
 */
void rem_random_reseed(const void *seed, size_t bytes)
{
	add_device_randomness(seed, bytes);
	if (crng_ready())
		crng_reseed(NULL);
}
