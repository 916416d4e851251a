// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A program that knows nothing of power failures. */
#include <stdlib.h>

#include "check.h"
#include "work.h"

#define MIB (1UL << 20)

/* Memory that it only has, with a content that no two pages have in common. */
static volatile uint64_t *hold(uint64_t mib)
{
	uint64_t words = mib * MIB / sizeof(uint64_t);
	volatile uint64_t *held = malloc(words * sizeof(*held));

	if (words && !held)
		check_fail("no memory for %llu MiB", (unsigned long long)mib);
	for (uint64_t i = 0; i < words; i++)
		held[i] = work_mix(i);
	return held;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", "hold_mib", NULL };
	volatile uint64_t *held;
	uint64_t digest;

	check_begin(argc, argv, extra);
	held = hold(check_number("hold_mib", 0));
	digest = work(check_number("rounds", 1));
	free((void *)held);
	return check_ok("digest=%llu", (unsigned long long)digest);
}
