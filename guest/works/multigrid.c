// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * AMG's class: Laplace's equation on a cube of points with seven neighbours,
 * by hypre's BoomerAMG as the preconditioner of conjugate gradients.
 *
 * Checked: the residual, computed here. Its library has the threads.
 */
#include "works.h"

#include <HYPRE.h>
#include <HYPRE_krylov.h>
#include <HYPRE_parcsr_ls.h>

#include <math.h>
#include <omp.h>

#define NEIGHBOURS 7
#define TOLERANCE 1e-8
#define WORLD 0 /* of a library without MPI */

static int side;

/* The row's columns, itself first; how many. */
static int row_of(int row, HYPRE_BigInt columns[NEIGHBOURS],
		  double values[NEIGHBOURS])
{
	int place[3] = { row % side, row / side % side, row / side / side };
	int stride[3] = { 1, side, side * side };
	int count = 1;

	columns[0] = row;
	values[0] = 6;
	for (int axis = 0; axis < 3; axis++)
		for (int way = -1; way <= 1; way += 2) {
			int next = place[axis] + way;

			if (next < 0 || next >= side)
				continue;
			columns[count] = row + way * stride[axis];
			values[count++] = -1;
		}
	return count;
}

static HYPRE_IJMatrix make_matrix(int rows)
{
	HYPRE_IJMatrix matrix;

	HYPRE_IJMatrixCreate(WORLD, 0, rows - 1, 0, rows - 1, &matrix);
	HYPRE_IJMatrixSetObjectType(matrix, HYPRE_PARCSR);
	HYPRE_IJMatrixInitialize(matrix);
	for (int row = 0; row < rows; row++) {
		HYPRE_BigInt columns[NEIGHBOURS];
		double values[NEIGHBOURS];
		int count = row_of(row, columns, values);

		HYPRE_IJMatrixSetValues(matrix, 1, &count, &row, columns,
					values);
	}
	HYPRE_IJMatrixAssemble(matrix);
	return matrix;
}

static HYPRE_IJVector make_vector(int rows, const double *values)
{
	HYPRE_IJVector vector;
	int *at = works_array(rows, sizeof(*at));

	for (int row = 0; row < rows; row++)
		at[row] = row;
	HYPRE_IJVectorCreate(WORLD, 0, rows - 1, &vector);
	HYPRE_IJVectorSetObjectType(vector, HYPRE_PARCSR);
	HYPRE_IJVectorInitialize(vector);
	HYPRE_IJVectorSetValues(vector, rows, at, values);
	HYPRE_IJVectorAssemble(vector);
	free(at);
	return vector;
}

static int solve(HYPRE_IJMatrix matrix, HYPRE_IJVector given,
		 HYPRE_IJVector found)
{
	HYPRE_ParCSRMatrix a;
	HYPRE_ParVector b, x;
	HYPRE_Solver solver, grids;
	int rounds;

	HYPRE_IJMatrixGetObject(matrix, (void **)&a);
	HYPRE_IJVectorGetObject(given, (void **)&b);
	HYPRE_IJVectorGetObject(found, (void **)&x);
	HYPRE_ParCSRPCGCreate(WORLD, &solver);
	HYPRE_PCGSetTol(solver, TOLERANCE);
	HYPRE_PCGSetMaxIter(solver, 100);
	HYPRE_PCGSetTwoNorm(solver, 1);
	HYPRE_BoomerAMGCreate(&grids);
	HYPRE_BoomerAMGSetRelaxType(grids, 6); /* symmetric Gauss-Seidel */
	HYPRE_BoomerAMGSetTol(grids, 0);
	HYPRE_BoomerAMGSetMaxIter(grids, 1);
	HYPRE_PCGSetPrecond(solver, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSolve,
			    (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSetup, grids);
	HYPRE_ParCSRPCGSetup(solver, a, b, x);
	HYPRE_ParCSRPCGSolve(solver, a, b, x);
	HYPRE_PCGGetNumIterations(solver, &rounds);
	HYPRE_ParCSRPCGDestroy(solver);
	HYPRE_BoomerAMGDestroy(grids);
	return rounds;
}

static double residual(int rows, const double *given, const double *found)
{
	double square = 0, whole = 0;

	for (int row = 0; row < rows; row++) {
		HYPRE_BigInt columns[NEIGHBOURS];
		double values[NEIGHBOURS], rest = given[row];
		int count = row_of(row, columns, values);

		for (int at = 0; at < count; at++)
			rest -= values[at] * found[columns[at]];
		square += rest * rest;
		whole += given[row] * given[row];
	}
	return sqrt(square / whole);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side", "threads", "planted",
					     NULL };
	double *given, *found, off;
	HYPRE_IJMatrix matrix;
	HYPRE_IJVector b, x;
	int rows, rounds, *at;

	check_begin(argc, argv, extra);
	side = (int)check_number("side", 12);
	rows = side * side * side;
	given = works_doubles(rows);
	found = works_doubles(rows);
	at = works_array(rows, sizeof(*at));
	for (int row = 0; row < rows; row++) {
		given[row] = 1 + (double)(row % 7);
		at[row] = row;
	}
	omp_set_num_threads((int)check_number("threads", 1));
	HYPRE_Init();
	matrix = make_matrix(rows);
	b = make_vector(rows, given);
	x = make_vector(rows, found);
	rounds = solve(matrix, b, x);
	HYPRE_IJVectorGetValues(x, rows, at, found);
	HYPRE_Finalize();
	if (check_number("planted", 0))
		found[rows / 2] *= 1.001;
	off = residual(rows, given, found);
	if (!(off < 10 * TOLERANCE))
		check_fail("residual %g", off);
	return check_ok("rows=%d rounds=%d residual=%g", rows, rounds, off);
}
