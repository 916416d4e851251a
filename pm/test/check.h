/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts checks and names broken promises. */
#ifndef PM_CHECK_H
#define PM_CHECK_H

#include <stdbool.h>
#include <stdio.h>

/*
 * A planted bug counts as found only by the verdict and in the test that its
 * patch names.
 */
#define CHECK(condition, ...) PROMISE("wrong-result", condition, __VA_ARGS__)
#define PROMISE(verdict, condition, ...) \
	check(condition, verdict, __FILE__, __LINE__, __VA_ARGS__)

void check(bool ok, const char *verdict, const char *file, int line,
	   const char *format, ...) __attribute__((format(printf, 5, 6)));

void test_blank(void);
void test_extents(void);
void test_long_work(void);
void test_lost_lines(void);
void test_fof(void);
void test_region(void);
void test_region_cuts(void);
void test_region_size_cuts(void);
void test_region_damage(void);
void test_region_give_up(void);
void test_region_kexec(void);
void test_region_restore(void);
void test_block(void);
void test_block_cuts(void);
void test_block_damage(void);
void test_block_resize(void);

#endif /* PM_CHECK_H */
