// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * wrf's class: air that moves over a plane whose ends meet. Heat and three
 * kinds of water are carried by the wind and mixed, level by level, and each
 * column then mixes upwards, condenses, rains and warms.
 *
 * All is moved as fluxes between cells, by Runge and Kutta's three stages.
 * Checked: air's heat and water in all, with what has rained, are what they
 * were; and no water is less than none.
 */
#include "works.h"

#include <math.h>
#include <string.h>

enum { HEAT, VAPOUR, CLOUD, RAIN, KINDS };

#define LEVELS 24
#define COURANT 0.3 /* of the fastest wind */
#define MIXING 0.05 /* of neighbours in a level, a step */
#define LIFTING 0.4 /* of neighbours in a column */
#define TOLERANCE 1e-11
#define LATENT 2500.0 /* heat of condensed water, J/g */
#define HEAT_CAPACITY 1004.0

static long side;
static double *now[KINDS], *stage[KINDS], *next[KINDS];
static double *wind_x, *wind_y; /* through a cell's lower sides */
static double *fallen;		/* by column */

static long at_of(long x, long y, long level)
{
	return (level * side + (y + side) % side) * side + (x + side) % side;
}

static long cells(void)
{
	return side * side * LEVELS;
}

/* A wind that turns, the same in and out of each cell, faster above. */
static void blow(void)
{
	double turn = 2 * M_PI / (double)side;

	for (long level = 0; level < LEVELS; level++)
		for (long y = 0; y < side; y++)
			for (long x = 0; x < side; x++) {
				double speed =
					COURANT * (double)(level + 1) / LEVELS;
				long at = at_of(x, y, level);

				wind_x[at] = speed * sin(turn * (double)y);
				wind_y[at] = speed * cos(turn * (double)x);
			}
}

static void fill(void)
{
	uint64_t state = 1;

	for (long level = 0; level < LEVELS; level++)
		for (long at = level * side * side;
		     at < (level + 1) * side * side; at++) {
			double some = (double)works_random(&state, 1000) / 1e3;

			now[HEAT][at] = 300 - 2 * (double)level + some;
			now[VAPOUR][at] =
				(16 + 12 * some) * exp(-(double)level / 8);
		}
}

/* What passes between two cells: what the wind takes along, and mixing. */
static double flux(double before, double after, double wind)
{
	return (wind > 0 ? before : after) * wind + MIXING * (before - after);
}

/* to = first + part * (what moved of from) */
static void move(const double *first, const double *from, double *to,
		 double part)
{
	for (long level = 0; level < LEVELS; level++)
		for (long y = 0; y < side; y++)
			for (long x = 0; x < side; x++) {
				long at = at_of(x, y, level);
				long east = at_of(x + 1, y, level);
				long west = at_of(x - 1, y, level);
				long north = at_of(x, y + 1, level);
				long south = at_of(x, y - 1, level);
				double gain =
					flux(from[west], from[at], wind_x[at]) -
					flux(from[at], from[east],
					     wind_x[east]) +
					flux(from[south], from[at],
					     wind_y[at]) -
					flux(from[at], from[north],
					     wind_y[north]);

				to[at] = first[at] + part * gain;
			}
}

static void transport(void)
{
	for (int kind = 0; kind < KINDS; kind++) {
		double *before = now[kind];

		move(before, before, stage[kind], 1.0 / 3);
		move(before, stage[kind], next[kind], 1.0 / 2);
		move(before, next[kind], stage[kind], 1);
		now[kind] = stage[kind];
		stage[kind] = before;
	}
}

/* Mixes a column upwards: an implicit step, which keeps its sum. */
static void lift(double column[LEVELS])
{
	double factor[LEVELS];

	for (int level = 0; level < LEVELS; level++) {
		double below = level ? LIFTING : 0;
		double above = level < LEVELS - 1 ? LIFTING : 0;
		double middle = 1 + below + above;

		if (level) {
			middle -= below * factor[level - 1];
			column[level] += below * column[level - 1];
		}
		factor[level] = above / middle;
		column[level] /= middle;
	}
	for (int level = LEVELS - 2; level >= 0; level--)
		column[level] += factor[level] * column[level + 1];
}

/* Water that air of a temperature holds, g/kg (Bolton). */
static double held(double kelvin)
{
	double celsius = kelvin - 273.15;

	return 3.8 * exp(17.67 * celsius / (celsius + 243.5));
}

static void condense(double column[KINDS][LEVELS])
{
	for (int level = 0; level < LEVELS; level++) {
		double more = column[VAPOUR][level] - held(column[HEAT][level]);
		double turned = more > 0 ?
					more / 2 :
					-fmin(-more / 2, column[CLOUD][level]);
		double rained =
			fmax(0, column[CLOUD][level] + turned - 0.5) / 10;

		column[VAPOUR][level] -= turned;
		column[CLOUD][level] += turned - rained;
		column[RAIN][level] += rained;
		column[HEAT][level] += turned * LATENT / HEAT_CAPACITY;
	}
}

static void rain(double column[LEVELS], double *ground)
{
	*ground += column[0] / 2;
	for (int level = 0; level < LEVELS - 1; level++)
		column[level] += column[level + 1] / 2 - column[level] / 2;
	column[LEVELS - 1] /= 2;
}

static void columns(void)
{
	double column[KINDS][LEVELS];

	for (long place = 0; place < side * side; place++) {
		for (int kind = 0; kind < KINDS; kind++)
			for (long level = 0; level < LEVELS; level++)
				column[kind][level] =
					now[kind][level * side * side + place];
		lift(column[HEAT]);
		lift(column[VAPOUR]);
		condense(column);
		rain(column[RAIN], &fallen[place]);
		for (int kind = 0; kind < KINDS; kind++)
			for (long level = 0; level < LEVELS; level++)
				now[kind][level * side * side + place] =
					column[kind][level];
	}
}

static double sum_of(const double *of, long count)
{
	double sum = 0;

	for (long at = 0; at < count; at++)
		sum += of[at];
	return sum;
}

static double water(void)
{
	return sum_of(now[VAPOUR], cells()) + sum_of(now[CLOUD], cells()) +
	       sum_of(now[RAIN], cells()) + sum_of(fallen, side * side);
}

/* Of the air, if all its vapour condensed. */
static double heat(void)
{
	return sum_of(now[HEAT], cells()) +
	       sum_of(now[VAPOUR], cells()) * LATENT / HEAT_CAPACITY;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side", "steps", "planted", NULL };
	double water_first, heat_first, off;
	long steps;

	check_begin(argc, argv, extra);
	side = (long)check_number("side", 24);
	steps = (long)check_number("steps", 4);
	for (int kind = 0; kind < KINDS; kind++) {
		now[kind] = works_doubles(cells());
		stage[kind] = works_doubles(cells());
		next[kind] = works_doubles(cells());
	}
	wind_x = works_doubles(cells());
	wind_y = works_doubles(cells());
	fallen = works_doubles(side * side);
	blow();
	fill();
	water_first = water();
	heat_first = heat();
	for (long step = 0; step < steps; step++) {
		transport();
		columns();
	}
	if (check_number("planted", 0))
		now[CLOUD][cells() / 2] += 1e-3;
	off = fabs(water() / water_first - 1) + fabs(heat() / heat_first - 1);
	if (!(off < TOLERANCE))
		check_fail("water and heat are off by %g", off);
	for (int kind = VAPOUR; kind < KINDS; kind++)
		for (long at = 0; at < cells(); at++)
			if (now[kind][at] < 0)
				check_fail("%g of kind %d at %ld",
					   now[kind][at], kind, at);
	return check_ok("cells=%ld fallen=%g off=%g", cells(),
			sum_of(fallen, side * side), off);
}
