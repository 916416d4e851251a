// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Plain memory as a C program sees it: a list, reopening, refusals. */
#include "nvheap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS NVHEAP_ASSUME_FLUSH_ON_FAIL
#define NODES 1000

struct node {
	struct node *next;
	long number;
};

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", what, nvheap_why());
	exit(1);
}

static void push(struct nvheap_fof *region, struct nvheap_fof_local *local,
		 long number)
{
	void *made, *first;
	struct node *node;

	expect(!nvheap_fof_alloc(local, sizeof(*node), &made), "alloc");
	expect(!nvheap_fof_root(region, "list", &first), "root");
	node = made;
	node->next = first;
	node->number = number;
	expect(!nvheap_fof_set_root(region, "list", node), "set root");
}

static void fill(const char *path)
{
	struct nvheap_fof_local *local;
	struct nvheap_fof *region;
	void *spare;

	expect(!nvheap_fof_create(path, 1 << 20, FLAGS, &region), "create");
	expect(!nvheap_fof_local_new(region, &local), "local");
	for (long number = 0; number < NODES; number++)
		push(region, local, number);
	expect(!nvheap_fof_alloc(local, 100000, &spare), "a large object");
	expect(!nvheap_fof_free(local, spare), "free");
	expect(!nvheap_fof_free(local, NULL), "free nothing");
	expect(nvheap_fof_free(local, &spare) == -EINVAL, "free of a local");
	expect(nvheap_fof_alloc(local, 1 << 21, &spare) == -ENOSPC, "full");
	expect(!nvheap_fof_hold(region, 0), "hold");
	expect(!nvheap_fof_release(region), "release");
	nvheap_fof_local_delete(local);
	expect(!nvheap_fof_close(region), "close");
}

/* The list leads through the same addresses; a process then dies with it. */
static void walk_and_die(const char *path)
{
	struct nvheap_fof *region;
	struct node *node;
	long number = NODES;
	void *first;

	expect(!nvheap_fof_open(path, FLAGS, &region), "open");
	expect(!nvheap_fof_root(region, "list", &first), "root again");
	for (node = first; node; node = node->next)
		expect(node->number == --number, "another number");
	expect(number == 0, "nodes are missing");
	_exit(0);
}

int main(int argc, char **argv)
{
	struct nvheap_fof *region;
	struct nvheap *heap;
	int status;
	pid_t child;

	expect(argc == 2, "usage");
	fill(argv[1]);
	expect(nvheap_open(argv[1], FLAGS, &heap) < 0, "no transactions");
	child = fork();
	if (child == 0)
		walk_and_die(argv[1]);
	expect(waitpid(child, &status, 0) == child && status == 0, "child");
	expect(nvheap_fof_open(argv[1], FLAGS, &region) == -EUCLEAN,
	       "a region whose process died");
	expect(!nvheap_fof_open(argv[1], FLAGS | NVHEAP_ACCEPT_UNCLOSED,
				&region),
	       "accepted");
	expect(!nvheap_fof_close(region), "close again");
	expect(nvheap_fof_create(argv[1], 1 << 20, FLAGS, &region) == -EEXIST,
	       "a file with a region");
	return 0;
}
