// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * pm-test [MUTANT]: all tests of the core. With the number of a planted bug the
 * first failure ends it; a bug that no test sees ends with 0, which is wrong.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../core/env.h"
#include "check.h"

#define SHOWN_MAX 20

unsigned long checks_done, checks_failed;
bool stop_at_first;
#ifdef PM_MUTANTS
int pm_mutant;
#endif

void check(bool ok, const char *file, int line, const char *format, ...)
{
	va_list list;

	checks_done++;
	if (ok)
		return;
	if (++checks_failed > SHOWN_MAX)
		return;
	fprintf(stderr, "%s:%d: ", file, line);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	if (stop_at_first)
		exit(1);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--count")) {
		printf("%d\n", PM_MUTANTS_END - 1);
		return 0;
	}
#ifdef PM_MUTANTS
	if (argc > 1) {
		pm_mutant = atoi(argv[1]);
		stop_at_first = true;
	}
#endif
	test_extents();
	test_region();
	test_region_cuts();
	test_region_size_cuts();
	test_region_damage();
	test_region_give_up();
	test_block();
	test_block_cuts();
	test_block_damage();
	test_block_resize();
	fprintf(stderr, "%lu checks, %lu failed\n", checks_done, checks_failed);
	return checks_failed != 0;
}
