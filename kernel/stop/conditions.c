// SPDX-License-Identifier: GPL-2.0-only
/*
 * Named conditions that user space reports (health.c), as pure functions, which are
 * tested on the host, too: no state of the kernel, the time is given.
 *
 * What is bad stays bad until it is reported as ok, however long its reporter is
 * silent. What is ok was reported with a period in which it is reported again: without
 * that nobody looks, and it counts as bad. So a reporter that has died never leaves the
 * machine promising more than is known. What is ok without a period is no condition.
 */
#include <linux/errno.h>
#include <linux/string.h>
#include "conditions.h"

#define REM_LINE_WORDS 3 /* NAME PERIOD_S ok|bad; the rest is text */
#define REM_DECIMAL 10

static bool rem_line_ends(const char *line)
{
	return !line[0] || (line[0] == '\n' && !line[1]);
}

/* Returns the length of the word at *@line, and moves that behind it and one blank. */
static size_t rem_cut_word(const char **line, const char **ret_word)
{
	const char *end = *line;

	*ret_word = *line;
	while (*end && *end != ' ' && *end != '\n')
		end++;
	*line = *end == ' ' ? end + 1 : end;
	return end - *ret_word;
}

static bool rem_is(const char *word, size_t chars, const char *expected)
{
	return chars == strlen(expected) && !memcmp(word, expected, chars);
}

/* So that a line of it has words: letters, digits and marks of names of devices. */
static bool rem_name_valid(const char *name, size_t chars)
{
	size_t i;

	if (!chars || chars >= REM_CONDITION_NAME_BYTES)
		return false;
	for (i = 0; i < chars; i++) {
		bool letter = (name[i] | 0x20) >= 'a' &&
			      (name[i] | 0x20) <= 'z';
		bool digit = name[i] >= '0' && name[i] <= '9';

		if (!letter && !digit && !(i && strchr("-_.:", name[i])))
			return false;
	}
	return true;
}

static bool rem_period_parse(const char *word, size_t chars,
			     unsigned long long *ret_period_s)
{
	unsigned long long period_s = 0;
	size_t i;

	for (i = 0; i < chars; i++) {
		if (word[i] < '0' || word[i] > '9')
			return false;
		period_s = period_s * REM_DECIMAL + (word[i] - '0');
		if (period_s > REM_CONDITION_PERIOD_MAX_S)
			return false;
	}
	*ret_period_s = period_s;
	return chars;
}

/*
 * A text that is too long is cut, and what is not of ASCII is replaced: bad it is all
 * the same. Returns the end of the line. @text is all zeros.
 */
static const char *rem_text_copy(char *text, const char *line)
{
	size_t i;

	for (i = 0; line[i] && line[i] != '\n'; i++)
		if (i < REM_CONDITION_TEXT_BYTES - 1)
			text[i] = line[i] >= ' ' && line[i] <= '~' ? line[i] :
								     '?';
	return line + i;
}

/* Returns whether @line is a report, and not two: one of them would be lost. */
static bool rem_report_parse(const char *line, struct rem_condition *ret_one)
{
	const char *word[REM_LINE_WORDS];
	size_t chars[REM_LINE_WORDS];
	unsigned int i;

	for (i = 0; i < REM_LINE_WORDS; i++)
		chars[i] = rem_cut_word(&line, &word[i]);
	memset(ret_one, 0, sizeof(*ret_one));
	if (!rem_name_valid(word[0], chars[0]) ||
	    !rem_period_parse(word[1], chars[1], &ret_one->period_s))
		return false;
	memcpy(ret_one->name, word[0], chars[0]);
	if (rem_is(word[2], chars[2], "ok"))
		return rem_line_ends(line);
	if (!rem_is(word[2], chars[2], "bad"))
		return false;
	line = rem_text_copy(ret_one->text, line);
	return ret_one->text[0] && rem_line_ends(line);
}

static struct rem_condition *rem_find(struct rem_conditions *all,
				      const char *name)
{
	unsigned int i;

	for (i = 0; i < all->count; i++)
		if (!strcmp(all->list[i].name, name))
			return &all->list[i];
	return NULL;
}

static void rem_remove(struct rem_conditions *all, struct rem_condition *one)
{
	struct rem_condition *last = &all->list[--all->count];

	memmove(one, one + 1, (size_t)((char *)last - (char *)one));
	memset(last, 0, sizeof(*last));
}

/**
 * rem_conditions_report - take in what user space says of one condition
 * @all: all of them
 * @line: NAME PERIOD_S ok, or NAME PERIOD_S bad TEXT
 * @now_s: the time
 *
 * Return: whether anything but times has changed; -EINVAL: this is no report;
 * -ENOSPC: there are too many. After an error nothing has changed.
 */
int rem_conditions_report(struct rem_conditions *all, const char *line,
			  unsigned long long now_s)
{
	struct rem_condition told, *one;
	bool changed;

	if (!rem_report_parse(line, &told))
		return -EINVAL;
	told.since_s = now_s;
	one = rem_find(all, told.name);
	if (!told.text[0] && !told.period_s) {
		if (one)
			rem_remove(all, one);
		return !!one;
	}
	if (!one && all->count == REM_CONDITIONS_MAX)
		return -ENOSPC;
	changed = !one || rem_condition_silent(one, now_s) ||
		  strcmp(one->text, told.text);
	if (!one)
		one = &all->list[all->count++];
	*one = told;
	return changed;
}

/**
 * rem_condition_silent - whether nobody has said in time that this is still ok
 * @one: a condition
 * @now_s: the time
 *
 * Return: true if so. What is bad is not: it stays bad.
 */
bool rem_condition_silent(const struct rem_condition *one,
			  unsigned long long now_s)
{
	return !one->text[0] && now_s > one->since_s + one->period_s;
}

/**
 * rem_conditions_bad - look for reasons to promise nothing
 * @all: all conditions
 * @now_s: the time
 * @ret_first: set to the first reason, or NULL
 *
 * Return: how many there are.
 */
unsigned int rem_conditions_bad(const struct rem_conditions *all,
				unsigned long long now_s,
				const struct rem_condition **ret_first)
{
	unsigned int count = 0;
	unsigned int i;

	*ret_first = NULL;
	for (i = 0; i < all->count; i++) {
		const struct rem_condition *one = &all->list[i];

		if (!one->text[0] && !rem_condition_silent(one, now_s))
			continue;
		if (!count++)
			*ret_first = one;
	}
	return count;
}

/**
 * rem_conditions_wait_s - when to look again although nobody reports
 * @all: all conditions
 * @now_s: the time
 *
 * Return: seconds from now until the next one may be silent; 0: none will be.
 */
unsigned long long rem_conditions_wait_s(const struct rem_conditions *all,
					 unsigned long long now_s)
{
	unsigned long long wait_s = 0;
	unsigned int i;

	for (i = 0; i < all->count; i++) {
		const struct rem_condition *one = &all->list[i];
		unsigned long long left_s;

		if (one->text[0] || rem_condition_silent(one, now_s))
			continue;
		left_s = one->since_s + one->period_s + 1 - now_s;
		if (!wait_s || left_s < wait_s)
			wait_s = left_s;
	}
	return wait_s;
}
