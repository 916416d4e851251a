/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The smallest thing that counts failures and names them. */
#ifndef PM_CHECK_H
#define PM_CHECK_H

#include <stdbool.h>
#include <stdio.h>

extern unsigned long checks_done, checks_failed;
extern bool stop_at_first; /* a mutant is dead with its first failure */

#define CHECK(condition, ...) check(condition, __FILE__, __LINE__, __VA_ARGS__)

void check(bool ok, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

void test_extents(void);
void test_region(void);
void test_region_cuts(void);
void test_region_size_cuts(void);
void test_region_damage(void);
void test_region_give_up(void);
void test_block(void);
void test_block_cuts(void);
void test_block_damage(void);
void test_block_resize(void);

#endif /* PM_CHECK_H */
