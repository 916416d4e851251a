// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * miniFE's class: Poisson's equation on bricks of eight nodes, assembled into a
 * sparse matrix element by element, and solved by conjugate gradients.
 *
 * The solution is known: f(x) f(y) f(z), f(x) = x (1 - x) exp(x). Checked: the
 * residual, computed from the matrix, and the distance from that solution, which
 * is of second order. Threads share the slabs of elements, and then the rows.
 */
#include "team.h"

#include <math.h>

#define CORNERS 8
#define LINE_BYTES 64
#define ROW_MAX 27
#define TOLERANCE 1e-10
/* Of the largest error over the square of an element's side. */
#define ERROR_MAX 0.3

static long side; /* elements */
static long nodes;
static long *begins; /* of each row, and of the one after the last */
static int *columns;
static double *values;
static double *source;

static long node_of(long x, long y, long z)
{
	return (z * (side + 1) + y) * (side + 1) + x;
}

static void place_of(long node, double at[3])
{
	at[0] = (double)(node % (side + 1)) / (double)side;
	at[1] = (double)(node / (side + 1) % (side + 1)) / (double)side;
	at[2] = (double)(node / (side + 1) / (side + 1)) / (double)side;
}

static bool is_inside(long node)
{
	long x = node % (side + 1), y = node / (side + 1) % (side + 1);
	long z = node / (side + 1) / (side + 1);

	return x > 0 && x < side && y > 0 && y < side && z > 0 && z < side;
}

static double factor(double x)
{
	return x * (1 - x) * exp(x);
}

/* The second derivative of factor(). */
static double bent(double x)
{
	return -x * (3 + x) * exp(x);
}

static double exact(const double at[3])
{
	return factor(at[0]) * factor(at[1]) * factor(at[2]);
}

/* What it is the solution for. */
static double load(const double at[3])
{
	return -(bent(at[0]) * factor(at[1]) * factor(at[2]) +
		 factor(at[0]) * bent(at[1]) * factor(at[2]) +
		 factor(at[0]) * factor(at[1]) * bent(at[2]));
}

/* Which entries there are: each node with its neighbours, in order. */
static void make_structure(void)
{
	long used = 0;

	for (long node = 0; node < nodes; node++) {
		long x = node % (side + 1), y = node / (side + 1) % (side + 1);
		long z = node / (side + 1) / (side + 1);

		begins[node] = used;
		for (long dz = z ? -1 : 0; dz <= (z < side); dz++)
			for (long dy = y ? -1 : 0; dy <= (y < side); dy++)
				for (long dx = x ? -1 : 0; dx <= (x < side);
				     dx++)
					columns[used++] = (int)node_of(
						x + dx, y + dy, z + dz);
	}
	begins[nodes] = used;
}

static void add(long row, long column, double value)
{
	long low = begins[row], high = begins[row + 1] - 1;

	while (low < high) {
		long middle = (low + high) / 2;

		if (columns[middle] < column)
			low = middle + 1;
		else
			high = middle;
	}
	values[low] += value;
}

/* The derivatives of the corners' functions at a point of the unit brick. */
static void derive(const double at[3], double of[CORNERS][3],
		   double shape[CORNERS])
{
	for (int corner = 0; corner < CORNERS; corner++) {
		double one[3], slope[3];

		for (int axis = 0; axis < 3; axis++) {
			bool far = corner >> axis & 1;

			one[axis] = far ? at[axis] : 1 - at[axis];
			slope[axis] = far ? 1 : -1;
		}
		shape[corner] = one[0] * one[1] * one[2];
		of[corner][0] = slope[0] * one[1] * one[2];
		of[corner][1] = one[0] * slope[1] * one[2];
		of[corner][2] = one[0] * one[1] * slope[2];
	}
}

/* The inverse of a matrix; its determinant. */
static double invert(double m[3][3], double to[3][3])
{
	double size = 0;

	for (int i = 0; i < 3; i++)
		size += m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] -
				   m[1][(i + 2) % 3] * m[2][(i + 1) % 3]);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++) {
			int a = (j + 1) % 3, b = (j + 2) % 3;
			int c = (i + 1) % 3, d = (i + 2) % 3;

			to[i][j] =
				(m[a][c] * m[b][d] - m[a][d] * m[b][c]) / size;
		}
	return size;
}

struct element {
	long node[CORNERS];
	double place[CORNERS][3];
	double matrix[CORNERS][CORNERS];
	double source[CORNERS];
};

/* One point of Gauss's rule. */
static void integrate(struct element *it, const double at[3], double weight)
{
	double of[CORNERS][3], shape[CORNERS], map[3][3] = { 0 }, back[3][3];
	double slope[CORNERS][3] = { 0 }, here[3] = { 0 };

	derive(at, of, shape);
	for (int corner = 0; corner < CORNERS; corner++)
		for (int i = 0; i < 3; i++) {
			here[i] += shape[corner] * it->place[corner][i];
			for (int j = 0; j < 3; j++)
				map[i][j] +=
					of[corner][i] * it->place[corner][j];
		}
	weight *= invert(map, back);
	for (int corner = 0; corner < CORNERS; corner++)
		for (int i = 0; i < 3; i++)
			for (int j = 0; j < 3; j++)
				slope[corner][i] += back[i][j] * of[corner][j];
	for (int a = 0; a < CORNERS; a++) {
		it->source[a] += weight * load(here) * shape[a];
		for (int b = 0; b < CORNERS; b++)
			for (int i = 0; i < 3; i++)
				it->matrix[a][b] +=
					weight * slope[a][i] * slope[b][i];
	}
}

static void assemble_one(long x, long y, long z)
{
	const double gauss[2] = { (1 - 1 / sqrt(3)) / 2,
				  (1 + 1 / sqrt(3)) / 2 };
	struct element it = { 0 };

	for (int corner = 0; corner < CORNERS; corner++) {
		it.node[corner] = node_of(x + (corner & 1),
					  y + (corner >> 1 & 1),
					  z + (corner >> 2));
		place_of(it.node[corner], it.place[corner]);
	}
	for (int point = 0; point < CORNERS; point++) {
		double at[3] = { gauss[point & 1], gauss[point >> 1 & 1],
				 gauss[point >> 2] };

		integrate(&it, at, 1.0 / CORNERS);
	}
	for (int a = 0; a < CORNERS; a++) {
		if (!is_inside(it.node[a]))
			continue;
		source[it.node[a]] += it.source[a];
		for (int b = 0; b < CORNERS; b++)
			if (is_inside(it.node[b]))
				add(it.node[a], it.node[b], it.matrix[a][b]);
	}
}

/* What a thread has of the rows, and where it is. */
struct part {
	long number, from, to;
	long meeting;
	long sums; /* so many have been made */
};

/* Two slabs that touch have nodes in common: first each second one. */
static void assemble(struct part *it)
{
	for (long odd = 0; odd < 2; odd++) {
		for (long z = odd + 2 * it->number; z < side;
		     z += 2 * team_threads)
			for (long y = 0; y < side; y++)
				for (long x = 0; x < side; x++)
					assemble_one(x, y, z);
		team_meet(&it->meeting);
	}
	for (long node = it->from; node < it->to; node++)
		if (!is_inside(node))
			add(node, node, 1);
}

static void multiply(const struct part *it, const double *from, double *to)
{
	for (long row = it->from; row < it->to; row++) {
		double sum = 0;

		for (long at = begins[row]; at < begins[row + 1]; at++)
			sum += values[at] * from[columns[at]];
		to[row] = sum;
	}
}

/*
 * Each thread has the same sum. The threads' parts have two places each in turn:
 * one may be in the next sum while others still read this one.
 */
static double dot(struct part *it, const double *a, const double *b)
{
	static struct {
		double sum;
		char others_lines[LINE_BYTES - sizeof(double)];
	} parts[2][TEAM_MAX];
	long place = it->sums++ % 2;
	double sum = 0;

	for (long node = it->from; node < it->to; node++)
		sum += a[node] * b[node];
	parts[place][it->number].sum = sum;
	team_meet(&it->meeting);
	sum = 0;
	for (long number = 0; number < team_threads; number++)
		sum += parts[place][number].sum;
	return sum;
}

/* to = a + factor * b */
static void combine(const struct part *it, double *to, const double *a,
		    double factor, const double *b)
{
	for (long node = it->from; node < it->to; node++)
		to[node] = a[node] + factor * b[node];
}

static double *found, *rest, *way, *moved;
static long rounds_max, rounds;

static void solve(struct part *it)
{
	double square, first;
	long round = 0;

	combine(it, rest, source, 0, source);
	combine(it, way, source, 0, source);
	first = square = dot(it, rest, rest);
	while (square > first * TOLERANCE * TOLERANCE && round < rounds_max) {
		double before = square, step;

		multiply(it, way, moved);
		step = square / dot(it, way, moved);
		combine(it, found, found, step, way);
		combine(it, rest, rest, -step, moved);
		square = dot(it, rest, rest);
		combine(it, way, rest, square / before, way);
		team_meet(&it->meeting); /* others' parts of the way, too */
		round++;
	}
	if (!it->number)
		rounds = round;
}

static void run(long number)
{
	struct part it = {
		.number = number,
		.from = team_share(nodes, number),
		.to = team_share(nodes, number + 1),
	};

	assemble(&it);
	solve(&it);
}

static void check(void)
{
	struct part all = { .to = nodes };
	double error = 0, residual;

	team_threads = 1;
	team_arrived = 0;
	multiply(&all, found, moved);
	combine(&all, moved, source, -1, moved);
	residual = sqrt(dot(&all, moved, moved) / dot(&all, source, source));
	for (long node = 0; node < nodes; node++) {
		double at[3];

		place_of(node, at);
		error = fmax(error, fabs(found[node] - exact(at)));
	}
	if (!(residual < 10 * TOLERANCE))
		check_fail("residual %g", residual);
	if (!(error < ERROR_MAX / (double)(side * side)))
		check_fail("error %g", error);
	check_ok("rows=%ld rounds=%ld residual=%g error=%g", nodes, rounds,
		 residual, error);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side", "rounds", "threads",
					     "planted", NULL };

	check_begin(argc, argv, extra);
	side = (long)check_number("side", 12);
	nodes = (side + 1) * (side + 1) * (side + 1);
	begins = works_array(nodes + 1, sizeof(*begins));
	columns = works_array(nodes * ROW_MAX, sizeof(*columns));
	values = works_doubles(nodes * ROW_MAX);
	source = works_doubles(nodes);
	found = works_doubles(nodes);
	rest = works_doubles(nodes);
	way = works_doubles(nodes);
	moved = works_doubles(nodes);
	rounds_max = (long)check_number("rounds", 500);
	make_structure();
	team_run((long)check_number("threads", 1), run);
	if (check_number("planted", 0))
		found[node_of(side / 2, side / 2, side / 2)] *= 1.001;
	check();
	return 0;
}
