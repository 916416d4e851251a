// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Words of a text are counted, as an interpreter or a compiler looks up names:
 * strings in a trie, whose nodes are objects. An operation is one word; what
 * it has not met before it inserts.
 */
#include "../objects.h"

#include <string.h>

#define LETTERS 8
#define LONGEST 12
#define NODE_BYTES 128 /* with what an allocator adds, about */
#define LESS 4
#define OFTEN 256   /* words that are half of the text */
#define NEW_PART 16 /* of so many words, one is not there at first */

struct node {
	object next[LETTERS];
	uint64_t count;
};

struct text {
	object top;
	uint64_t vocabulary;
	uint64_t nodes;
	uint64_t words;
};

const char work_name[] = "words";
static object root;
static uint64_t step;

/* Letters of a word are a hash of its number; its length, too. */
static unsigned int spell(uint64_t word, uint8_t *letters)
{
	uint64_t bits = mix(word);
	unsigned int length = 4 + (unsigned int)(bits >> 60) % (LONGEST - 3);

	for (unsigned int i = 0; i < length; i++)
		letters[i] = (uint8_t)(bits >> 3 * i) % LETTERS;
	return length;
}

static object new_node(struct text *text)
{
	object it = objects_make(sizeof(struct node));

	memset(at(it), 0, sizeof(struct node));
	about_to_change(&text->nodes, sizeof(text->nodes));
	text->nodes++;
	return it;
}

static void count_word(uint64_t word)
{
	struct text *text = at(root);
	struct node *node = at(text->top);
	uint8_t letters[LONGEST];
	unsigned int length = spell(word, letters);

	for (unsigned int i = 0; i < length; i++) {
		object *link = &node->next[letters[i]];

		if (is_nothing(*link)) {
			about_to_change(link, sizeof(*link));
			*link = new_node(text);
		}
		node = at(*link);
	}
	about_to_change(&node->count, sizeof(node->count));
	node->count++;
	about_to_change(&text->words, sizeof(text->words));
	text->words++;
}

static void next_word(void)
{
	uint64_t vocabulary = ((struct text *)at(root))->vocabulary;
	uint64_t bits = mix(++step);

	count_word((bits >> 1) % (bits & 1 ? OFTEN : vocabulary));
}

/* All words until their nodes are so many bytes; more come later. Names are
 * few beside the data of other works.
 */
void work_begin(size_t bytes)
{
	struct text *text;

	root = objects_root(sizeof(struct text));
	text = at(root);
	text->top = objects_make(sizeof(struct node));
	memset(at(text->top), 0, sizeof(struct node));
	text->nodes = 1;
	text->words = 0;
	while (text->nodes < bytes / NODE_BYTES / LESS)
		count_word(text->words);
	text->vocabulary = text->words + text->words / NEW_PART;
}

void work_go_on(uint64_t operations)
{
	while (operations--) {
		OPERATION(next_word());
		other_work();
	}
}

static uint64_t walk(object it, uint64_t *words, uint64_t *nodes)
{
	struct node *node = at(it);
	uint64_t digest = node->count;

	*words += node->count;
	*nodes += 1;
	for (int i = 0; i < LETTERS; i++)
		if (!is_nothing(node->next[i]))
			digest = fold(digest + (uint64_t)i,
				      walk(node->next[i], words, nodes));
	return digest;
}

/* All words and all nodes are there. */
uint64_t work_check(void)
{
	struct text *text = at(root);
	uint64_t words = 0, nodes = 0;
	uint64_t digest = walk(text->top, &words, &nodes);

	if (words != text->words || nodes != text->nodes)
		objects_fail("a word that is lost");
	return digest;
}
