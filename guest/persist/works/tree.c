// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A treap of up to 8,192 keys, into which keys come and from which they go. */
#include "work.h"

#define NODES 8192
#define KEYS 12000
#define STEPS 4096

const char work_name[] = "tree";

struct node {
	uint64_t key;
	uint64_t weight;
	struct node *left;
	struct node *right;
};

static struct node nodes[NODES], *spare, *root;
static uint64_t used;

static struct node *take_node(uint64_t key)
{
	struct node *node = spare;

	if (node)
		spare = node->left;
	else if (used < NODES)
		node = &nodes[used++];
	else
		return NULL;
	node->key = key;
	node->weight = work_mix(key);
	node->left = NULL;
	node->right = NULL;
	return node;
}

static struct node *merge(struct node *left, struct node *right)
{
	if (!left || !right)
		return left ? left : right;
	if (left->weight > right->weight) {
		left->right = merge(left->right, right);
		return left;
	}
	right->left = merge(left, right->left);
	return right;
}

static void split(struct node *tree, uint64_t key, struct node **ret_left,
		  struct node **ret_right)
{
	if (!tree) {
		*ret_left = NULL;
		*ret_right = NULL;
	} else if (tree->key < key) {
		split(tree->right, key, &tree->right, ret_right);
		*ret_left = tree;
	} else {
		split(tree->left, key, ret_left, &tree->left);
		*ret_right = tree;
	}
}

static struct node **find(uint64_t key)
{
	struct node **at = &root;

	while (*at && (*at)->key != key)
		at = key < (*at)->key ? &(*at)->left : &(*at)->right;
	return at;
}

static void insert(uint64_t key)
{
	struct node *left, *right, *node = take_node(key);

	if (!node)
		return;
	split(root, key, &left, &right);
	root = merge(merge(left, node), right);
}

static void step(uint64_t key)
{
	struct node **at = find(key), *found = *at;

	if (!found) {
		insert(key);
		return;
	}
	*at = merge(found->left, found->right);
	found->left = spare;
	spare = found;
}

static uint64_t digest_of(const struct node *tree, uint64_t digest)
{
	if (!tree)
		return digest;
	digest = digest_of(tree->left, digest);
	return digest_of(tree->right, work_fold(digest, tree->key));
}

uint64_t work(uint64_t rounds)
{
	for (uint64_t number = 0; number < rounds * STEPS; number++)
		step(work_mix(number) % KEYS);
	return digest_of(root, 0);
}
