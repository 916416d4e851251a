/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Planted bugs, each of which some test must find. They exist in a loader that
 * is built for that (make MUTANTS=1); in any other the condition is a constant.
 */
#ifndef GO_MUTANT_H
#define GO_MUTANT_H

#include "front.h"

#ifdef REM_MUTANTS
/* Whether this boot has the bug @name. */
bool mutant(const struct front *front, const char *name);
#else
static inline bool mutant(const struct front *front, const char *name)
{
	(void)front;
	(void)name;
	return false;
}
#endif

#endif /* GO_MUTANT_H */
