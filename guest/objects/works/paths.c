// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Shortest paths in a graph of objects with references, as of route planners
 * and network simplex: the label-correcting method with a queue. An operation
 * takes a node from the queue, and corrects the distances of its neighbours.
 * When the queue is empty, it begins again from another node.
 */
#include "../objects.h"

#include <string.h>

#define ARCS 4
#define NODE_BYTES 256 /* with what an allocator adds, about */
#define LONGEST 1024

struct node {
	uint64_t distance;
	uint64_t search; /* in which distance was set */
	uint64_t queued;
	object next; /* in the queue */
	object to[ARCS];
	uint64_t length[ARCS];
	object parent;
	uint64_t number;
};

struct graph {
	uint64_t nodes;
	uint64_t search;
	object all;	    /* of references to nodes */
	object first, last; /* of the queue */
};

const char work_name[] = "paths";
static object root;

static void put_last(struct graph *graph, object it)
{
	struct node *node = at(it);

	node->queued = 1;
	node->next = NOTHING;
	if (is_nothing(graph->first)) {
		graph->first = it;
	} else {
		struct node *last = at(graph->last);

		about_to_change(&last->next, sizeof(last->next));
		last->next = it;
	}
	graph->last = it;
}

static void begin_search(struct graph *graph)
{
	object *all = at(graph->all);
	object it = all[mix(graph->search) % graph->nodes];
	struct node *node = at(it);

	about_to_change(node, sizeof(*node));
	graph->search++;
	node->search = graph->search;
	node->distance = 0;
	node->parent = NOTHING;
	put_last(graph, it);
}

static void correct(struct graph *graph, object from, object it,
		    uint64_t distance)
{
	struct node *node = at(it);

	if (node->search == graph->search && node->distance <= distance)
		return;
	about_to_change(node, sizeof(*node));
	if (node->search != graph->search)
		node->queued = 0;
	node->search = graph->search;
	node->distance = distance;
	node->parent = from;
	if (!node->queued)
		put_last(graph, it);
}

static void visit(void)
{
	struct graph *graph = at(root);
	struct node *node;
	object it;

	about_to_change(graph, sizeof(*graph));
	if (is_nothing(graph->first))
		begin_search(graph);
	it = graph->first;
	node = at(it);
	graph->first = node->next;
	about_to_change(&node->queued, sizeof(node->queued));
	node->queued = 0;
	for (int i = 0; i < ARCS; i++)
		correct(graph, it, node->to[i],
			node->distance + node->length[i]);
}

/* Two arcs of a node lead to the next ones, which makes all reachable. */
static uint64_t target(uint64_t nodes, uint64_t from, int arc)
{
	if (arc < 2)
		return (from + (arc ? 37 : 1)) % nodes;
	return mix(from * ARCS + (uint64_t)arc) % nodes;
}

void work_begin(size_t bytes)
{
	struct graph *graph;
	object *all;

	root = objects_root(sizeof(struct graph));
	graph = at(root);
	graph->search = 0;
	graph->first = graph->last = NOTHING;
	graph->nodes = bytes / NODE_BYTES;
	graph->all = objects_make(graph->nodes * sizeof(object));
	all = at(graph->all);
	for (uint64_t i = 0; i < graph->nodes; i++)
		all[i] = objects_make(sizeof(struct node));
	for (uint64_t i = 0; i < graph->nodes; i++) {
		struct node *node = at(all[i]);

		memset(node, 0, sizeof(*node));
		node->number = i;
		node->next = node->parent = NOTHING;
		for (int arc = 0; arc < ARCS; arc++) {
			node->to[arc] = all[target(graph->nodes, i, arc)];
			node->length[arc] =
				1 + mix(i ^ (uint64_t)arc << 60) % LONGEST;
		}
	}
}

void work_go_on(uint64_t operations)
{
	while (operations--) {
		OPERATION(visit());
		other_work();
	}
}

/* The search is ended; then no arc makes any distance shorter. */
uint64_t work_check(void)
{
	struct graph *graph = at(root);
	object *all = at(graph->all);
	uint64_t digest = graph->search;

	while (!is_nothing(graph->first))
		OPERATION(visit());
	for (uint64_t i = 0; graph->search && i < graph->nodes; i++) {
		struct node *node = at(all[i]);

		if (node->search != graph->search || node->queued ||
		    node->number != i)
			objects_fail("a node that was not reached");
		for (int arc = 0; arc < ARCS; arc++) {
			struct node *to = at(node->to[arc]);

			if (to->distance > node->distance + node->length[arc])
				objects_fail("a path that is not the shortest");
		}
		digest = fold(digest, node->distance);
	}
	return digest;
}
