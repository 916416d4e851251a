// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Products of square matrices of 96 rows, each with the one before. */
#include "work.h"

#define ROWS 96

const char work_name[] = "matrix";
static uint64_t left[ROWS][ROWS], right[ROWS][ROWS], product[ROWS][ROWS];

static uint64_t dot(const uint64_t *row, const uint64_t *column)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < ROWS; i++)
		sum += row[i] * column[i * ROWS];
	return sum;
}

static void multiply_row(size_t row)
{
	for (size_t column = 0; column < ROWS; column++)
		product[row][column] = dot(left[row], &right[0][column]);
}

uint64_t work(uint64_t rounds)
{
	uint64_t digest = 0;

	for (size_t i = 0; i < ROWS * ROWS; i++) {
		left[i / ROWS][i % ROWS] = work_mix(i);
		right[i / ROWS][i % ROWS] = work_mix(~i);
	}
	for (uint64_t round = 0; round < rounds; round++) {
		for (size_t row = 0; row < ROWS; row++)
			multiply_row(row);
		for (size_t i = 0; i < ROWS * ROWS; i++)
			left[i / ROWS][i % ROWS] = product[i / ROWS][i % ROWS] ^
						   round;
	}
	for (size_t i = 0; i < ROWS * ROWS; i++)
		digest = work_fold(digest, left[i / ROWS][i % ROWS]);
	return digest;
}
