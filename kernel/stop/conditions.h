/* SPDX-License-Identifier: GPL-2.0-only */
/* Named conditions of the supply's health: see conditions.c. Included on the host, too. */
#ifndef REM_STOP_CONDITIONS_H
#define REM_STOP_CONDITIONS_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#endif

/* `remctl health` has six, and programs of administrators the rest; all fit a page. */
#define REM_CONDITIONS_MAX 24
#define REM_CONDITION_NAME_BYTES 24
#define REM_CONDITION_TEXT_BYTES 80
#define REM_CONDITION_PERIOD_MAX_S 86400ull

/**
 * struct rem_condition - what is reported under one name
 * @name: of it
 * @text: what is bad; "": nothing is
 * @period_s: within which it is to be reported again; 0: it need not be
 * @since_s: when it was reported
 */
struct rem_condition {
	char name[REM_CONDITION_NAME_BYTES];
	char text[REM_CONDITION_TEXT_BYTES];
	unsigned long long period_s;
	unsigned long long since_s;
};

/**
 * struct rem_conditions - all of them, in the order in which they were reported first
 * @count: how many there are
 * @list: they
 */
struct rem_conditions {
	unsigned int count;
	struct rem_condition list[REM_CONDITIONS_MAX];
};

int rem_conditions_report(struct rem_conditions *all, const char *line,
			  unsigned long long now_s);
bool rem_condition_silent(const struct rem_condition *one,
			  unsigned long long now_s);
unsigned int rem_conditions_bad(const struct rem_conditions *all,
				unsigned long long now_s,
				const struct rem_condition **ret_first);
unsigned long long rem_conditions_wait_s(const struct rem_conditions *all,
					 unsigned long long now_s);

#endif /* REM_STOP_CONDITIONS_H */
