// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cactusADM's class: Einstein's equations of a weak field, in the form of
 * Arnowitt, Deser and Misner, as a stencil over twelve functions on a cube
 * whose ends meet: the metric h and the extrinsic curvature K, six parts each.
 *
 *	h' = -2 K, K' = Ricci(h), by leapfrog, with differences of second order
 *
 * A plane wave along the cube's diagonal is a solution, of these differences,
 * too: with another frequency, which is known. Checked: every point, at the
 * end.
 */
#include "works.h"

#include <math.h>

#define PARTS 6
#define HEIGHT 1e-3
#define COURANT 0.25
#define TOLERANCE 1e-9

static const int part_of[3][3] = { { 0, 1, 2 }, { 1, 3, 4 }, { 2, 4, 5 } };
static long side;
static double spacing;
static double *h[PARTS], *k[PARTS];
/* Of the wave: along (1, 1, 1), transverse and without trace. */
static double shape[PARTS];

static long at_of(long x, long y, long z)
{
	return ((z + side) % side * side + (y + side) % side) * side +
	       (x + side) % side;
}

static void make_shape(void)
{
	const double a[3] = { M_SQRT1_2, -M_SQRT1_2, 0 };
	const double b[3] = { 1 / sqrt(6), 1 / sqrt(6), -2 / sqrt(6) };

	for (int i = 0; i < 3; i++)
		for (int j = i; j < 3; j++)
			shape[part_of[i][j]] = a[i] * a[j] - b[i] * b[j];
}

static double wave(long x, long y, long z)
{
	return HEIGHT * sin(2 * M_PI * (double)(x + y + z) / (double)side);
}

/* The frequency's square, of the differences. */
static double frequency_square(void)
{
	double turn = 2 * M_PI / (double)side;
	double half = sin(turn / 2) / spacing, whole = sin(turn) / spacing;

	return 4 * half * half + 2 * whole * whole;
}

/* All second derivatives of one part: as part_of has them. */
static void derive(const double *of, const long near[3][3][3], double to[PARTS])
{
	double square = 1 / (spacing * spacing), middle = of[near[1][1][1]];

	to[0] = (of[near[1][1][2]] - 2 * middle + of[near[1][1][0]]) * square;
	to[3] = (of[near[1][2][1]] - 2 * middle + of[near[1][0][1]]) * square;
	to[5] = (of[near[2][1][1]] - 2 * middle + of[near[0][1][1]]) * square;
	to[1] = (of[near[1][2][2]] - of[near[1][2][0]] - of[near[1][0][2]] +
		 of[near[1][0][0]]) *
		square / 4;
	to[2] = (of[near[2][1][2]] - of[near[2][1][0]] - of[near[0][1][2]] +
		 of[near[0][1][0]]) *
		square / 4;
	to[4] = (of[near[2][2][1]] - of[near[2][0][1]] - of[near[0][2][1]] +
		 of[near[0][0][1]]) *
		square / 4;
}

/* Ricci's tensor of a weak field. */
static void ricci(double second[PARTS][PARTS], double to[PARTS])
{
	for (int i = 0; i < 3; i++)
		for (int j = i; j < 3; j++) {
			double sum = 0;

			for (int m = 0; m < 3; m++) {
				int mm = part_of[m][m];

				sum += second[part_of[i][j]][mm];
				sum += second[mm][part_of[i][j]];
				sum -= second[part_of[m][j]][part_of[m][i]];
				sum -= second[part_of[m][i]][part_of[m][j]];
			}
			to[part_of[i][j]] = -sum / 2;
		}
}

static void curve(long x, long y, long z, double step)
{
	double second[PARTS][PARTS], to[PARTS];
	long near[3][3][3], at = at_of(x, y, z);

	for (long c = 0; c < 3; c++)
		for (long b = 0; b < 3; b++)
			for (long a = 0; a < 3; a++)
				near[c][b][a] =
					at_of(x + a - 1, y + b - 1, z + c - 1);
	for (int part = 0; part < PARTS; part++)
		derive(h[part], near, second[part]);
	ricci(second, to);
	for (int part = 0; part < PARTS; part++)
		k[part][at] += step * to[part];
}

static void evolve(double step)
{
	for (long z = 0; z < side; z++)
		for (long y = 0; y < side; y++)
			for (long x = 0; x < side; x++)
				curve(x, y, z, step);
	for (int part = 0; part < PARTS; part++)
		for (long at = 0; at < side * side * side; at++)
			h[part][at] -= 2 * step * k[part][at];
}

/* Standing waves: @metric and @curvature times the wave. */
static void begin(double curvature)
{
	for (long z = 0; z < side; z++)
		for (long y = 0; y < side; y++)
			for (long x = 0; x < side; x++)
				for (int part = 0; part < PARTS; part++) {
					double one =
						shape[part] * wave(x, y, z);

					h[part][at_of(x, y, z)] = one;
					k[part][at_of(x, y, z)] =
						curvature * one;
				}
}

static double error_of(double metric)
{
	double error = 0;

	for (long z = 0; z < side; z++)
		for (long y = 0; y < side; y++)
			for (long x = 0; x < side; x++)
				for (int part = 0; part < PARTS; part++)
					error = fmax(
						error,
						fabs(h[part][at_of(x, y, z)] -
						     metric * shape[part] *
							     wave(x, y, z)));
	return error / HEIGHT;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side", "steps", "planted", NULL };
	double step, angle, error;
	long steps;

	check_begin(argc, argv, extra);
	side = (long)check_number("side", 16);
	steps = (long)check_number("steps", 10);
	spacing = 1.0 / (double)side;
	step = COURANT * spacing;
	for (int part = 0; part < PARTS; part++) {
		h[part] = works_doubles(side * side * side);
		k[part] = works_doubles(side * side * side);
	}
	make_shape();
	angle = acos(1 - frequency_square() * step * step / 2);
	/* Half a step before the first, from a metric that turns there. */
	begin(-frequency_square() * step / 4);
	for (long number = 0; number < steps; number++)
		evolve(step);
	if (check_number("planted", 0))
		h[PARTS - 1][at_of(1, 2, 3)] += HEIGHT / 1000;
	error = error_of(cos(angle * (double)steps));
	if (!(error < TOLERANCE))
		check_fail("error %g", error);
	return check_ok("points=%ld error=%g", side * side * side, error);
}
