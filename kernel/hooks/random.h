/* SPDX-License-Identifier: GPL-2.0-only */
/* Included by drivers/char/random.c, whose pool it needs. */

/**
 * rem_random_reseed - make every generator draw a new key
 * @seed: differs for each Go; not credited
 * @bytes: of it
 *
 * As add_vmfork_randomness(), but for its notifiers, which may sleep.
 *
 * Context: any. Return: nothing.
 */
void rem_random_reseed(const void *seed, size_t bytes)
{
	add_device_randomness(seed, bytes);
	if (crng_ready())
		crng_reseed(NULL);
}
