// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Shortest paths through hills of 128 by 128 cells: Dijkstra's, with a binary heap. */
#include "work.h"

#define SIDE 128
#define CELLS (SIDE * SIDE)
#define FAR (~0U)

const char work_name[] = "path";

struct waiting {
	uint32_t distance;
	uint32_t cell;
};

static uint8_t height[CELLS];
static uint32_t distance[CELLS];
static struct waiting heap[4 * CELLS];
static uint32_t heap_count;

static void push(struct waiting item)
{
	uint32_t at = heap_count++;

	while (at && heap[(at - 1) / 2].distance > item.distance) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = item;
}

static struct waiting pop(void)
{
	struct waiting first = heap[0], last = heap[--heap_count];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < heap_count) {
		if (child + 1 < heap_count &&
		    heap[child + 1].distance < heap[child].distance)
			child++;
		if (heap[child].distance >= last.distance)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

static void reach(uint32_t cell, uint32_t from)
{
	uint32_t new_distance = from + 1 + height[cell];

	if (new_distance >= distance[cell])
		return;
	distance[cell] = new_distance;
	push((struct waiting){ new_distance, cell });
}

static void visit(struct waiting item)
{
	uint32_t row = item.cell / SIDE, column = item.cell % SIDE;

	if (item.distance > distance[item.cell])
		return;
	if (row)
		reach(item.cell - SIDE, item.distance);
	if (row < SIDE - 1)
		reach(item.cell + SIDE, item.distance);
	if (column)
		reach(item.cell - 1, item.distance);
	if (column < SIDE - 1)
		reach(item.cell + 1, item.distance);
}

uint64_t work(uint64_t rounds)
{
	uint64_t digest = 0;

	for (uint64_t i = 0; i < CELLS; i++)
		height[i] = (uint8_t)work_mix(i);
	for (uint64_t round = 0; round < rounds; round++) {
		for (uint32_t i = 0; i < CELLS; i++)
			distance[i] = FAR;
		distance[work_mix(round) % CELLS] = 0;
		push((struct waiting){ 0, work_mix(round) % CELLS });
		while (heap_count)
			visit(pop());
		for (uint32_t i = 0; i < CELLS; i++)
			digest = work_fold(digest, distance[i]);
	}
	return digest;
}
