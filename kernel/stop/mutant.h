/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Planted bugs, each of which some test must find. They exist in one kernel
 * that is built for that; in any other the condition is a constant.
 */
#ifndef REM_MUTANT_H
#define REM_MUTANT_H

#include <linux/types.h>

#ifdef CONFIG_REMANENCE_MUTANTS
bool rem_mutant(const char *name);
void rem_mutant_speak(void);
#else
static inline bool rem_mutant(const char *name)
{
	return false;
}

static inline void rem_mutant_speak(void)
{
}
#endif

#endif /* REM_MUTANT_H */
