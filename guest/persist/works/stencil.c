// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Heat on a plate of 256 by 256 cells, in fixed point. */
#include "work.h"

#define SIDE 256
#define WHOLE (1 << 24)

const char work_name[] = "stencil";
static uint32_t plates[2][SIDE][SIDE];

static void relax_row(uint32_t (*to)[SIDE], uint32_t (*from)[SIDE], size_t row)
{
	for (size_t i = 1; i < SIDE - 1; i++)
		to[row][i] = (from[row - 1][i] + from[row + 1][i] +
			      from[row][i - 1] + from[row][i + 1]) /
			     4;
}

uint64_t work(uint64_t rounds)
{
	uint64_t digest = 0;

	for (size_t i = 0; i < SIDE; i++) {
		plates[0][0][i] = WHOLE;
		plates[1][0][i] = WHOLE;
		plates[0][i][SIDE - 1] = (uint32_t)(i * (WHOLE / SIDE));
		plates[1][i][SIDE - 1] = plates[0][i][SIDE - 1];
	}
	for (uint64_t round = 0; round < rounds; round++)
		for (size_t row = 1; row < SIDE - 1; row++)
			relax_row(plates[(round + 1) % 2], plates[round % 2],
				  row);
	for (size_t i = 0; i < SIDE * SIDE; i++)
		digest = work_fold(digest,
				   plates[rounds % 2][i / SIDE][i % SIDE]);
	return digest;
}
