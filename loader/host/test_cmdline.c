/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>

#include "../core/cmdline.h"
#include "check.h"

static void check_after(void)
{
	static const u8 at[] = "word=value";

	CHECK(cmdline_after(at, "word=") == at + 5, "begins with it");
	CHECK(cmdline_after(at, "word=value") == at + 10, "is it");
	CHECK(cmdline_after(at, "") == at, "nothing");
	CHECK(!cmdline_after(at, "word=values"), "is shorter");
	CHECK(!cmdline_after(at, "Word="), "another");
	CHECK(!cmdline_after(at + 10, "word="), "the end");
}

/* @value: the rest of the line from there, or NULL */
static void check_value(void)
{
	static const struct {
		const char *cmdline, *value;
	} cases[] = {
		{ "", NULL },
		{ " ", NULL },
		{ "\t \n", NULL },
		{ "quiet", NULL },
		{ "word", NULL },
		{ "word=", "" },
		{ "word=a", "a" },
		{ "word=a quiet", "a quiet" },
		{ "quiet word=a", "a" },
		{ "quiet word=", "" },
		{ "quiet word", NULL },
		{ "quiet\tword=a\tquiet", "a\tquiet" },
		{ "quiet\nword=a", "a" },
		{ "\x01word=a", "a" },
		{ " \t  word=a  ", "a  " },
		{ "word=a word=b", "b" },
		{ "word=a word=b quiet", "b quiet" },
		{ "word=a word=", "" },
		{ "word=a word", "a word" },
		{ "word=a xword=b", "a xword=b" },
		{ "word=word=a", "word=a" },
		{ "words=a", NULL },
		{ "wor=a", NULL },
		{ "xword=a", NULL },
		{ "init=word=a", NULL },
		{ "x\xa0word=a", NULL },
		{ "\"x word=a\"", "a\"" },
	};

	for (u32 i = 0; i < GO_COUNT(cases); i++) {
		const u8 *got =
			cmdline_value((const u8 *)cases[i].cmdline, "word=");

		CHECK(!got == !cases[i].value, "found: '%s'", cases[i].cmdline);
		CHECK(!got || !cases[i].value ||
			      !strcmp((const char *)got, cases[i].value),
		      "value: '%s'", cases[i].cmdline);
	}
}

void test_cmdline(void)
{
	check_after();
	check_value();
}
