// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * SNAP's class: particles that move in discrete directions through a cube of
 * cells and are scattered, absorbed and emitted there; the flux of each
 * direction is swept from the corner where it enters, in steps of time.
 *
 * Diamond differences in space and time; threads share the groups. Checked: in
 * the last step all that entered, was emitted or had been there is absorbed,
 * has left or is there.
 */
#include "team.h"

#include <math.h>
#include <string.h>

#define OCTANTS 8
#define TOTAL 1.0 /* cross sections */
#define SCATTERED 0.5
#define EMITTED 1.0
#define STEP 0.1 /* of time, at speed 1 */
#define ROUNDS 3 /* of scattering in a step */
#define TOLERANCE 1e-11

static long side;
static long angles; /* of an octant */
static long groups;
static double *flux_in; /* by group, octant, cell and angle: of the last step */
static double *flux_out;
static double *scalar; /* by group and cell: all directions */
static double *emission;
static double *mu, *eta, *xi, *weight;
static long steps;

/* Of a group in the last step. */
struct balance {
	double left, absorbed, grown, emitted;
};
static struct balance *balances;

static long cells(void)
{
	return side * side * side;
}

static void make_angles(void)
{
	for (long angle = 0; angle < angles; angle++) {
		double up = ((double)angle + 0.5) / (double)angles;
		double turn =
			M_PI / 2 * fmod(((double)angle + 0.5) * 0.618034, 1);

		xi[angle] = up;
		mu[angle] = sqrt(1 - up * up) * cos(turn);
		eta[angle] = sqrt(1 - up * up) * sin(turn);
		weight[angle] = 1.0 / (double)(angles * OCTANTS);
	}
}

struct edges {
	double *x, *y, *z; /* what enters a cell, by place and angle */
};

/* All angles of an octant in one cell. */
static void cell_step(const struct edges *edge, long x, long y, long at,
		      long part, double *sum, double source)
{
	double *in_x = edge->x;
	double *in_y = edge->y + x * angles;
	double *in_z = edge->z + (y * side + x) * angles;
	double delta = 1.0 / (double)side, time = 2 / STEP;
	const double *from = flux_in + part;
	double *to = flux_out + part;

	for (long angle = 0; angle < angles; angle++) {
		double a = 2 * mu[angle] / delta, b = 2 * eta[angle] / delta;
		double c = 2 * xi[angle] / delta;
		double before = from[at * angles + angle];
		double flux = (source + a * in_x[angle] + b * in_y[angle] +
			       c * in_z[angle] + time * before) /
			      (TOTAL + a + b + c + time);

		in_x[angle] = 2 * flux - in_x[angle];
		in_y[angle] = 2 * flux - in_y[angle];
		in_z[angle] = 2 * flux - in_z[angle];
		to[at * angles + angle] = 2 * flux - before;
		sum[at] += weight[angle] * flux;
	}
}

/* What has left by one face, whose places have so many angles. */
static double leak(const double *edge, long places, const double *slope)
{
	double sum = 0, face = 1.0 / (double)(side * side);

	for (long place = 0; place < places; place++)
		for (long angle = 0; angle < angles; angle++)
			sum += weight[angle] * slope[angle] * face *
			       edge[place * angles + angle];
	return sum;
}

/* What has left. */
static double sweep_octant(long group, long octant, struct edges *edge,
			   double *sum)
{
	double left = 0;
	long part = (group * OCTANTS + octant) * cells() * angles;
	size_t line = (size_t)(side * angles) * sizeof(double);

	memset(edge->z, 0, line * (size_t)side);
	for (long k = 0; k < side; k++) {
		long z = octant & 4 ? side - 1 - k : k;

		memset(edge->y, 0, line);
		for (long j = 0; j < side; j++) {
			long y = octant & 2 ? side - 1 - j : j;

			memset(edge->x, 0, line / (size_t)side);
			for (long i = 0; i < side; i++) {
				long x = octant & 1 ? side - 1 - i : i;
				long at = (z * side + y) * side + x;

				cell_step(edge, x, y, at, part, sum,
					  emission[group * cells() + at]);
			}
			left += leak(edge->x, 1, mu);
		}
		left += leak(edge->y, side, eta);
	}
	return left + leak(edge->z, side * side, xi);
}

/* One step of time in one group. */
static void group_step(long group, struct edges *edge)
{
	double *sum = scalar + group * cells();
	double *source = emission + group * cells();
	struct balance *it = &balances[group];
	double volume = 1.0 / (double)cells();

	for (long round = 0; round < ROUNDS; round++) {
		it->emitted = 0;
		it->left = 0;
		for (long at = 0; at < cells(); at++) {
			source[at] = EMITTED / (double)(group + 1) +
				     SCATTERED * sum[at];
			it->emitted += volume * source[at];
			sum[at] = 0;
		}
		for (long octant = 0; octant < OCTANTS; octant++)
			it->left += sweep_octant(group, octant, edge, sum);
	}
	it->absorbed = 0;
	for (long at = 0; at < cells(); at++)
		it->absorbed += volume * TOTAL * sum[at];
}

static double stored(const double *flux, long group)
{
	long part = group * OCTANTS * cells() * angles;
	double sum = 0;

	for (long at = 0; at < OCTANTS * cells() * angles; at++)
		sum += weight[at % angles] * flux[part + at];
	return sum / (double)cells();
}

static void check_balance(long group)
{
	struct balance *it = &balances[group];
	double off;

	it->grown = (stored(flux_out, group) - stored(flux_in, group)) / STEP;
	off = fabs(it->emitted - it->absorbed - it->left - it->grown) /
	      it->emitted;
	if (!(off < TOLERANCE))
		check_fail("group %ld is off balance by %g", group, off);
}

/* What this thread does of each step. */
static void run(long number)
{
	long meeting = 0;
	struct edges edge = {
		.x = works_doubles(angles),
		.y = works_doubles(side * angles),
		.z = works_doubles(side * side * angles),
	};

	for (long step = 0; step < steps; step++) {
		if (step && !number) {
			double *before = flux_in;

			flux_in = flux_out;
			flux_out = before;
		}
		team_meet(&meeting);
		for (long group = team_share(groups, number);
		     group < team_share(groups, number + 1); group++)
			group_step(group, &edge);
		team_meet(&meeting);
	}
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side",  "angles",	 "groups",
					     "steps", "threads", "planted",
					     NULL };
	struct balance all = { 0 };
	long fluxes;

	check_begin(argc, argv, extra);
	side = (long)check_number("side", 8);
	angles = (long)check_number("angles", 8);
	groups = (long)check_number("groups", 4);
	steps = (long)check_number("steps", 2);
	fluxes = groups * OCTANTS * cells() * angles;
	flux_in = works_doubles(fluxes);
	flux_out = works_doubles(fluxes);
	scalar = works_doubles(groups * cells());
	emission = works_doubles(groups * cells());
	mu = works_doubles(4 * angles);
	eta = mu + angles;
	xi = eta + angles;
	weight = xi + angles;
	balances = works_array(groups, sizeof(*balances));
	make_angles();
	team_run((long)check_number("threads", 1), run);
	for (long group = 0; group < groups; group++) {
		if (check_number("planted", 0))
			flux_out[group * (fluxes / groups)] += 1;
		check_balance(group);
		all.absorbed += balances[group].absorbed;
		all.left += balances[group].left;
		all.grown += balances[group].grown;
	}
	return check_ok("cells=%ld absorbed=%g left=%g grown=%g", cells(),
			all.absorbed, all.left, all.grown);
}
