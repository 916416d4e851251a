// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A program that knows nothing of power failures. */
#include "check.h"
#include "work.h"

int main(int argc, char **argv)
{
	static const char *const extra[] = { "rounds", NULL };

	check_begin(argc, argv, extra);
	return check_ok("digest=%llu",
			(unsigned long long)work(check_number("rounds", 1)));
}
