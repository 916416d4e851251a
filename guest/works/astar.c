// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * astar's class: shortest ways through a map of ground that costs more or less
 * and of walls, found by A* with a heap.
 *
 * Checked: each way adds up to its cost; and that no way is shorter, since no
 * place that was left has a neighbour that it reaches for less, and none that
 * was reached and not left promises less than the goal took.
 */
#include "works.h"

#include <string.h>

#define DIRECTIONS 4
#define COST_MAX 9
#define WALLS_PERCENT 20
#define NEVER UINT32_MAX

struct place {
	uint32_t cost; /* to get here, so far */
	uint32_t from;
	uint8_t ground; /* 0: a wall */
	bool left;
};

struct waiting {
	uint32_t promise; /* the cost at least of a way through it */
	uint32_t place;
};

static long side;
static struct place *map;
static struct waiting *heap;
static long heap_count, heap_max;
static uint64_t state = 1;

static void make_map(void)
{
	for (long at = 0; at < side * side; at++) {
		bool wall = works_random(&state, 100) < WALLS_PERCENT;
		uint64_t cost = 1 + works_random(&state, COST_MAX);

		map[at].ground = wall ? 0 : (uint8_t)cost;
	}
}

static void heap_push(uint32_t promise, uint32_t place)
{
	long at = heap_count++;

	if (heap_count > heap_max) {
		heap_max *= 2;
		heap = realloc(heap, (size_t)heap_max * sizeof(*heap));
		if (!heap)
			check_fail("no memory for %ld places", heap_max);
	}
	while (at && heap[(at - 1) / 2].promise > promise) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = (struct waiting){ promise, place };
}

static struct waiting heap_pop(void)
{
	struct waiting first = heap[0], last = heap[--heap_count];
	long at = 0;

	for (;;) {
		long child = 2 * at + 1;

		if (child >= heap_count)
			break;
		if (child + 1 < heap_count &&
		    heap[child + 1].promise < heap[child].promise)
			child++;
		if (heap[child].promise >= last.promise)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

/* The neighbour in a direction; -1: there is none. */
static long neighbour(long at, int direction)
{
	static const int dx[DIRECTIONS] = { 1, 0, -1, 0 };
	static const int dy[DIRECTIONS] = { 0, 1, 0, -1 };
	long x = at % side + dx[direction], y = at / side + dy[direction];

	if (x < 0 || x >= side || y < 0 || y >= side ||
	    !map[y * side + x].ground)
		return -1;
	return y * side + x;
}

/* Of a way from one place to another, at least. */
static uint32_t distance(long a, long b)
{
	return (uint32_t)(labs(a % side - b % side) +
			  labs(a / side - b / side));
}

static void leave(long at, long goal)
{
	map[at].left = true;
	for (int direction = 0; direction < DIRECTIONS; direction++) {
		long next = neighbour(at, direction);
		uint32_t cost;

		if (next < 0)
			continue;
		cost = map[at].cost + map[next].ground;
		if (cost >= map[next].cost)
			continue;
		map[next].cost = cost;
		map[next].from = (uint32_t)at;
		heap_push(cost + distance(next, goal), (uint32_t)next);
	}
}

/* False if there is no way. */
static bool search(long start, long goal)
{
	for (long at = 0; at < side * side; at++) {
		map[at].cost = NEVER;
		map[at].left = false;
	}
	heap_count = 0;
	map[start].cost = 0;
	heap_push(distance(start, goal), (uint32_t)start);
	while (heap_count) {
		struct waiting next = heap_pop();

		if (next.place == goal)
			return true;
		if (!map[next.place].left)
			leave(next.place, goal);
	}
	return false;
}

static long check_way(long start, long goal)
{
	uint32_t sum = 0;
	long places = 0;

	for (long at = goal; at != start; at = map[at].from) {
		sum += map[at].ground;
		if (++places > side * side || !map[at].ground)
			check_fail("no way from %ld to %ld", start, goal);
	}
	if (sum != map[goal].cost)
		check_fail("the way costs %u, not %u", sum, map[goal].cost);
	return places;
}

static void check_shortest(long goal, bool found)
{
	for (long at = 0; at < side * side; at++) {
		const struct place *place = &map[at];

		if (found && !place->left && place->cost != NEVER &&
		    place->cost + distance(at, goal) < map[goal].cost)
			check_fail("a way by %ld may be shorter", at);
		if (!place->left)
			continue;
		for (int direction = 0; direction < DIRECTIONS; direction++) {
			long next = neighbour(at, direction);

			if (next >= 0 &&
			    map[next].cost > place->cost + map[next].ground)
				check_fail("%ld is nearer by %ld", next, at);
		}
	}
}

static long pick(void)
{
	long at;

	do
		at = (long)works_random(&state, (uint64_t)(side * side));
	while (!map[at].ground);
	return at;
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side", "ways", "planted", NULL };
	long ways, found = 0, places = 0;

	check_begin(argc, argv, extra);
	side = (long)check_number("side", 128);
	ways = (long)check_number("ways", 4);
	map = works_array(side * side, sizeof(*map));
	heap_max = side * side;
	heap = works_array(heap_max, sizeof(*heap));
	make_map();
	for (long way = 0; way < ways; way++) {
		long start = pick(), goal = pick();
		bool is_way = search(start, goal);

		if (check_number("planted", 0) && is_way)
			map[goal].cost++;
		if (is_way)
			places += check_way(start, goal);
		check_shortest(goal, is_way);
		found += is_way;
	}
	if (!found)
		check_fail("no way was found");
	return check_ok("found=%ld places=%ld", found, places);
}
