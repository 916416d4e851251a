/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The answer to the question whether to give an image up: a word and Enter. Noise
 * on a console is neither.
 */
#ifndef LOADER_ANSWER_H
#define LOADER_ANSWER_H

#include "base.h"

#define ANSWER_COLD "cold"

/* struct answer - how much of the word this line has so far */
struct answer {
	u32 matched;
	bool wrong; /* something else is in this line */
};

/* The next byte of the console; true if it ends a line with only that word. */
static inline bool answer_byte(struct answer *answer, u8 byte)
{
	const u32 letters = sizeof(ANSWER_COLD) - 1;
	bool complete;

	if (byte != '\r' && byte != '\n') {
		answer->wrong |= answer->matched == letters ||
				 byte != (u8)ANSWER_COLD[answer->matched];
		answer->matched += !answer->wrong;
		return false;
	}
	complete = answer->matched == letters && !answer->wrong;
	*answer = (struct answer){ 0 };
	return complete;
}

#endif /* LOADER_ANSWER_H */
