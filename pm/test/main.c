// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * pm-test [--only TEST] [--until VERDICT]: the tests of the core. With --until it
 * ends with 0 as soon as that verdict is reported, and with 1 if it is not.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define SHOWN_MAX 20

struct test {
	const char *name;
	void (*run)(void);
};

static const struct test tests[] = {
	{ "extents", test_extents },
	{ "region", test_region },
	{ "region-cuts", test_region_cuts },
	{ "region-size-cuts", test_region_size_cuts },
	{ "region-damage", test_region_damage },
	{ "region-give-up", test_region_give_up },
	{ "region-kexec", test_region_kexec },
	{ "region-restore", test_region_restore },
	{ "long-work", test_long_work },
	{ "lost-lines", test_lost_lines },
	{ "fof", test_fof },
	{ "blank", test_blank },
	{ "block", test_block },
	{ "block-cuts", test_block_cuts },
	{ "block-damage", test_block_damage },
	{ "block-resize", test_block_resize },
};

static unsigned long checks_done, checks_failed;
static const char *running, *until;

void check(bool ok, const char *verdict, const char *file, int line,
	   const char *format, ...)
{
	bool wanted = until && !strcmp(verdict, until);
	va_list list;

	checks_done++;
	if (ok)
		return;
	if (++checks_failed > SHOWN_MAX && !wanted)
		return;
	fprintf(stderr, "%s: %s: %s:%d: ", running, verdict, file, line);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	if (wanted)
		exit(0);
}

static int usage(void)
{
	fprintf(stderr, "pm-test [--only TEST] [--until VERDICT]\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *only = NULL;
	bool ran = false;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			return usage();
		if (!strcmp(argv[i], "--only"))
			only = argv[i + 1];
		else if (!strcmp(argv[i], "--until"))
			until = argv[i + 1];
		else
			return usage();
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (only && strcmp(only, tests[i].name))
			continue;
		running = tests[i].name;
		tests[i].run();
		ran = true;
	}
	if (!ran)
		return usage();
	fprintf(stderr, "%lu checks, %lu failed\n", checks_done, checks_failed);
	return until || checks_failed;
}
