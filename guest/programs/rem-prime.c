// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-prime: one long computation whose result is known.
 *
 * Counts the primes below --limit by a segmented sieve, again and again, and
 * compares with the known value of the prime-counting function where there is
 * one (powers of ten), and with the first result in any case. SIGUSR1 tells
 * how far the present count is.
 */
#include "check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT (1ULL << 16)
#define LIMIT_DEFAULT 100000000ULL
#define LIMIT_MAX 1000000000000ULL

static const struct {
	uint64_t limit;
	uint64_t primes;
} known[] = {
	{ 1000000, 78498 },
	{ 10000000, 664579 },
	{ 100000000, 5761455 },
	{ 1000000000, 50847534 },
	{ 10000000000, 455052511 },
	{ 100000000000, 4118054813 },
	{ 1000000000000, 37607912018 },
};

static uint32_t *small_primes;
static size_t small_count;

static void find_small_primes(uint64_t limit)
{
	uint64_t root = 1;
	uint8_t *composite;

	while (root * root < limit)
		root++;
	composite = calloc(root + 1, 1);
	small_primes = calloc(root + 1, sizeof(*small_primes));
	if (!composite || !small_primes)
		check_fail("out of memory");
	for (uint64_t i = 2; i <= root; i++) {
		if (composite[i])
			continue;
		small_primes[small_count++] = (uint32_t)i;
		for (uint64_t k = i * i; k <= root; k += i)
			composite[k] = 1;
	}
	free(composite);
}

static uint64_t count_segment(uint64_t low, uint64_t high)
{
	static uint8_t composite[SEGMENT];
	uint64_t primes = 0;

	memset(composite, 0, sizeof(composite));
	for (size_t i = 0; i < small_count; i++) {
		uint64_t p = small_primes[i];
		uint64_t first = (low + p - 1) / p * p;

		if (p * p >= high)
			break;
		if (first < p * p)
			first = p * p;
		for (uint64_t k = first; k < high; k += p)
			composite[k - low] = 1;
	}
	for (uint64_t k = low; k < high; k++)
		primes += !composite[k - low];
	return primes;
}

static uint64_t known_primes(uint64_t limit)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].limit == limit)
			return known[i].primes;
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "limit", NULL };
	uint64_t limit, expected, primes = 0, low = 2;
	unsigned long long rounds = 0;

	check_begin(argc, argv, extra);
	limit = check_number("limit", LIMIT_DEFAULT);
	if (limit < 1000 || limit > LIMIT_MAX)
		check_fail("--limit must be 1000 to %llu", LIMIT_MAX);
	expected = known_primes(limit);
	find_small_primes(limit);
	while (check_go_on(rounds)) {
		uint64_t high = low + SEGMENT < limit ? low + SEGMENT : limit;

		primes += count_segment(low, high);
		low = high;
		if (check_asked())
			check_at("rounds=%llu reached=%llu primes=%llu", rounds,
				 (unsigned long long)low,
				 (unsigned long long)primes);
		if (low < limit)
			continue;
		if (!expected)
			expected = primes;
		if (primes != expected)
			check_fail("%llu primes below %llu, not %llu",
				   (unsigned long long)primes,
				   (unsigned long long)limit,
				   (unsigned long long)expected);
		rounds++;
		primes = 0;
		low = 2;
	}
	return check_ok("rounds=%llu limit=%llu reached=%llu primes=%llu",
			rounds, (unsigned long long)limit,
			(unsigned long long)low, (unsigned long long)primes);
}
