/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What existing kernel files call so that the sum of the kernel's text stays right
 * (text.c).
 */
#ifndef _LINUX_REM_POKE_H
#define _LINUX_REM_POKE_H

#include <linux/types.h>

#define REM_POKE_WORDS 8

/**
 * struct rem_poke - a change of text in progress
 * @at: start of the first block of the sum that changes
 * @words: of all these blocks; 0: the sum is not of this text
 * @before: what is there
 */
struct rem_poke {
	const u64 *at;
	unsigned int words;
	u64 before[REM_POKE_WORDS];
};

#if defined(CONFIG_REMANENCE) && defined(CONFIG_X86_64)
void rem_poke_begin(struct rem_poke *poke, const void *addr, size_t bytes);
void rem_poke_end(const struct rem_poke *poke);
#else
static inline void rem_poke_begin(struct rem_poke *poke, const void *addr,
				  size_t bytes)
{
}

static inline void rem_poke_end(const struct rem_poke *poke)
{
}
#endif

#ifdef CONFIG_REMANENCE
void rem_sealed(void);
#else
static inline void rem_sealed(void)
{
}
#endif

#endif /* _LINUX_REM_POKE_H */
