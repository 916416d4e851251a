// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A sparse linear system, as finite elements and multigrid solvers have them:
 * seven points in space, with a matrix in memory, smoothed by Gauss-Seidel.
 * Blocks of rows and of unknowns are objects. An operation is a block of rows.
 */
#include "../objects.h"

#include <math.h>
#include <string.h>

#define ROWS 64 /* of a block */
#define POINTS 7
#define MOST_LEFT 1.0 /* the error may not grow */
#define BLOCK_BYTES (sizeof(struct block) + ROWS * sizeof(double))

struct block {
	double matrix[ROWS][POINTS];
	uint32_t column[ROWS][POINTS];
	double right[ROWS];
};

struct system {
	uint64_t side, rows, blocks;
	uint64_t step;	/* blocks that were smoothed */
	object matrix;	/* of references to blocks */
	object unknown; /* of references to ROWS numbers each */
};

const char work_name[] = "solver";
static object root;

static double *unknown_of(object *unknown, uint32_t row)
{
	double *values = at(unknown[row / ROWS]);

	return &values[row % ROWS];
}

static void smooth(void)
{
	struct system *system = at(root);
	uint64_t number = system->step % system->blocks;
	object *unknown = at(system->unknown), *matrix = at(system->matrix);
	const struct block *block = at(matrix[number]);
	double *mine = at(unknown[number]);

	about_to_change(mine, ROWS * sizeof(double));
	for (int row = 0; row < ROWS; row++) {
		double sum = block->right[row];

		for (int i = 1; i < POINTS; i++)
			sum -= block->matrix[row][i] *
			       *unknown_of(unknown, block->column[row][i]);
		mine[row] = sum / block->matrix[row][0];
	}
	about_to_change(&system->step, sizeof(system->step));
	system->step++;
}

/* The neighbour of @row in a direction; itself with a weight of 0 outside. */
static uint32_t neighbour(uint64_t side, uint64_t row, int i, double *weight)
{
	uint64_t stride[] = { 1, side, side * side };
	uint64_t by = stride[(i - 1) / 2];
	uint64_t place = row / by % side;
	bool up = i & 1;

	*weight = 0;
	if (up ? place + 1 == side : !place)
		return (uint32_t)row;
	*weight = -1;
	return (uint32_t)(up ? row + by : row - by);
}

/* The solution is known: all ones. */
static void fill(struct block *block, uint64_t side, uint64_t first)
{
	for (uint64_t row = 0; row < ROWS; row++) {
		block->matrix[row][0] = 6.5;
		block->column[row][0] = (uint32_t)(first + row);
		block->right[row] = block->matrix[row][0];
		for (int i = 1; i < POINTS; i++) {
			double *weight = &block->matrix[row][i];

			block->column[row][i] =
				neighbour(side, first + row, i, weight);
			block->right[row] += *weight;
		}
	}
}

void work_begin(size_t bytes)
{
	struct system *system;
	object *matrix, *unknown;

	root = objects_root(sizeof(struct system));
	system = at(root);
	system->step = 0;
	system->side = 4;
	while ((system->side + 4) * (system->side + 4) * (system->side + 4) /
		       ROWS * BLOCK_BYTES <=
	       bytes)
		system->side += 4;
	system->rows = system->side * system->side * system->side;
	system->blocks = system->rows / ROWS;
	system->matrix = objects_make(system->blocks * sizeof(object));
	system->unknown = objects_make(system->blocks * sizeof(object));
	matrix = at(system->matrix);
	unknown = at(system->unknown);
	for (uint64_t i = 0; i < system->blocks; i++) {
		matrix[i] = objects_make(sizeof(struct block));
		unknown[i] = objects_make(ROWS * sizeof(double));
		fill(at(matrix[i]), system->side, i * ROWS);
		memset(at(unknown[i]), 0, ROWS * sizeof(double));
	}
}

void work_go_on(uint64_t operations)
{
	while (operations--) {
		OPERATION(smooth());
		other_work();
	}
}

/* The matrix is diagonally dominant: each sweep makes the largest error less. */
uint64_t work_check(void)
{
	struct system *system = at(root);
	object *unknown = at(system->unknown);
	double bound = pow(6.0 / 6.5, (double)(system->step / system->blocks));
	uint64_t digest = system->step;

	for (uint32_t row = 0; row < system->rows; row++) {
		double value = *unknown_of(unknown, row);
		uint64_t bits;

		if (!(fabs(value - 1) <= MOST_LEFT * bound * 1.000001))
			objects_fail("an error that does not shrink");
		memcpy(&bits, &value, sizeof(bits));
		digest = fold(digest, bits);
	}
	return digest;
}
