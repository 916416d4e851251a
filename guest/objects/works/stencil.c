// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Heat in a plane, explicit in time (five points): two grids whose rows are
 * objects. An operation is one row of the next step.
 */
#include "../objects.h"

#include <math.h>
#include <string.h>

#define COLUMNS 512
#define PART 0.2  /* of what a neighbour has more */
#define NEAR 1e-9 /* sums differ by roundings only */

struct plane {
	uint64_t rows;
	uint64_t step;	 /* rows that were computed */
	object grids[2]; /* of references to rows */
};

const char work_name[] = "stencil";
static object root;

static double *row_of(struct plane *plane, uint64_t grid, uint64_t row)
{
	object *rows = at(plane->grids[grid & 1]);

	return at(rows[row]);
}

/* Nothing leaves at the borders. */
static void one_row(void)
{
	struct plane *plane = at(root);
	uint64_t grid = plane->step / plane->rows;
	uint64_t row = plane->step % plane->rows, last = plane->rows - 1;
	const double *mine = row_of(plane, grid, row);
	const double *up = row_of(plane, grid, row ? row - 1 : 0);
	const double *down = row_of(plane, grid, row < last ? row + 1 : last);
	double *next = row_of(plane, grid + 1, row);

	about_to_change(next, COLUMNS * sizeof(double));
	for (int i = 0; i < COLUMNS; i++) {
		double left = mine[i ? i - 1 : 0];
		double right = mine[i < COLUMNS - 1 ? i + 1 : i];

		next[i] = mine[i] +
			  PART * (left + right + up[i] + down[i] - 4 * mine[i]);
	}
	about_to_change(&plane->step, sizeof(plane->step));
	plane->step++;
}

static double heat(uint64_t row, int column)
{
	return (double)(mix(row * COLUMNS + (uint64_t)column) >> 44);
}

static void make_row(struct plane *plane, int grid, uint64_t row)
{
	object *rows = at(plane->grids[grid]);
	double *values;

	rows[row] = objects_make(COLUMNS * sizeof(double));
	values = at(rows[row]);
	for (int i = 0; i < COLUMNS; i++)
		values[i] = grid ? 0 : heat(row, i);
}

/*
 * What is read and written together lies together, as far as pages do: where
 * two grids lie otherwise decides how often they meet in a bank of DRAM.
 */
void work_begin(size_t bytes)
{
	struct plane *plane;

	root = objects_root(sizeof(struct plane));
	plane = at(root);
	plane->step = 0;
	plane->rows = bytes / (2 * COLUMNS * sizeof(double));
	for (int grid = 0; grid < 2; grid++)
		plane->grids[grid] = objects_make(plane->rows * sizeof(object));
	for (uint64_t row = 0; row < plane->rows; row++) {
		make_row(plane, 0, row);
		make_row(plane, 1, row);
	}
}

void work_go_on(uint64_t operations)
{
	while (operations--) {
		OPERATION(one_row());
		other_work();
	}
}

/* Of what whole steps have computed: the sum has not changed. */
uint64_t work_check(void)
{
	struct plane *plane = at(root);
	uint64_t digest = plane->step, grid = plane->step / plane->rows;
	double sum = 0, was = 0;

	/* Rows of a step that is not complete are in the other grid. */
	for (uint64_t row = 0; row < plane->rows; row++) {
		const double *values = row_of(plane, grid, row);

		for (int i = 0; i < COLUMNS; i++) {
			uint64_t bits;

			memcpy(&bits, &values[i], sizeof(bits));
			digest = fold(digest, bits);
			sum += values[i];
			was += heat(row, i);
		}
	}
	if (!(fabs(sum - was) < NEAR * was))
		objects_fail("heat that came or went");
	return digest;
}
