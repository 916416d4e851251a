/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the programs here share that would notice a page with an old content. What a page has to
 * hold follows from whose it is, its number, and the round in which it was written, so no table
 * tells it that could be as old as the page.
 */
#ifndef PAGE_WORDS_H
#define PAGE_WORDS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 4096, WORDS = BYTES / sizeof(uint64_t) };

/* A word of a page: @kind below 64, @page below 4 million, @version below 64 million. */
static inline uint64_t word_of(uint64_t kind, uint64_t page, uint64_t version, uint64_t i)
{
	uint64_t x = (kind << 58) ^ (page << 36) ^ (version << 10) ^ i;

	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15u;
	return x ^ (x >> 29);
}

static inline void fill_words(uint64_t *words, uint64_t kind, uint64_t page, uint64_t version)
{
	for (uint64_t i = 0; i < WORDS; i++)
		words[i] = word_of(kind, page, version, i);
}

/* The last round until @round in which a page was written that is written every @every rounds. */
static inline uint64_t last_written(uint64_t page, uint64_t round, uint64_t every)
{
	uint64_t since = (round + page) % every;

	return round > since ? round - since : 0;
}

/* The same numbers in each run. */
static inline uint64_t any(uint64_t below)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static inline void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* The file where rounds that have ended are told. */
static inline int open_progress(const char *path)
{
	int progress = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);

	if (progress < 0)
		fail(path);
	return progress;
}

static inline void report(int progress, uint64_t round)
{
	char text[32];
	int bytes = snprintf(text, sizeof(text), "%020lu\n", round);

	if (pwrite(progress, text, bytes, 0) != bytes)
		fail("progress");
}

#endif /* PAGE_WORDS_H */
