// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Quicksort of 16,384 numbers, over and over. */
#include "work.h"

#define NUMBERS 16384

const char work_name[] = "sort";
static uint64_t numbers[NUMBERS];

static void swap(uint64_t *one, uint64_t *other)
{
	uint64_t kept = *one;

	*one = *other;
	*other = kept;
}

static size_t split(uint64_t *from, size_t count)
{
	uint64_t middle = from[(count - 1) / 2];
	size_t low = 0, high = count - 1;

	for (;;) {
		while (from[low] < middle)
			low++;
		while (from[high] > middle)
			high--;
		if (low >= high)
			return high + 1;
		swap(&from[low++], &from[high--]);
	}
}

static void sort(uint64_t *from, size_t count)
{
	while (count > 1) {
		size_t left = split(from, count);

		sort(from, left);
		from += left;
		count -= left;
	}
}

uint64_t work(uint64_t rounds)
{
	uint64_t digest = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		for (uint64_t i = 0; i < NUMBERS; i++)
			numbers[i] = work_mix(round * NUMBERS + i);
		sort(numbers, NUMBERS);
		for (uint64_t i = 1; i < NUMBERS; i++)
			digest = work_fold(digest, numbers[i] < numbers[i - 1] ?
							   ~0ULL :
							   numbers[i]);
	}
	return digest;
}
