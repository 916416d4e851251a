// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-service FILE: become the process that an image describes.
 *
 * FILE has fields KEY=VALUE, each ended by a NUL (lab/oci/service.py writes
 * it): uid, gid, cwd once; group, env, arg as often as needed, in order. The
 * file is the image's own business, but a field that cannot be understood ends
 * the program: a service must not run as root because a line was lost.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX 8192
#define GROUPS_MAX 1024

static char *argv[WORDS_MAX + 1];
static char *env[WORDS_MAX + 1];
static gid_t groups[GROUPS_MAX];
static size_t argv_count, env_count, group_count;
static const char *cwd;
static long uid = -1, gid = -1;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "rem-service: %s: %s\n", what, why);
	exit(127);
}

static long number(const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 0 || value > 0xfffffffel)
		die(text, "no user or group number");
	return value;
}

static void add(char **list, size_t *count, char *value)
{
	if (*count == WORDS_MAX)
		die("words", "too many");
	list[(*count)++] = value;
}

static void take(char *field)
{
	char *value = strchr(field, '=');

	if (!value)
		die(field, "not understood");
	*value++ = '\0';
	if (!strcmp(field, "uid"))
		uid = number(value);
	else if (!strcmp(field, "gid"))
		gid = number(value);
	else if (!strcmp(field, "cwd"))
		cwd = value;
	else if (!strcmp(field, "env"))
		add(env, &env_count, value);
	else if (!strcmp(field, "arg"))
		add(argv, &argv_count, value);
	else if (!strcmp(field, "group") && group_count < GROUPS_MAX)
		groups[group_count++] = (gid_t)number(value);
	else
		die(field, "not understood");
}

/* The whole file; it stays in memory, since the fields point into it. */
static char *read_file(const char *path, size_t *ret_bytes)
{
	FILE *file = fopen(path, "re");
	struct stat about;
	char *data;

	if (!file || fstat(fileno(file), &about))
		die(path, strerror(errno));
	*ret_bytes = (size_t)about.st_size;
	data = malloc(*ret_bytes + 1);
	if (!data || fread(data, 1, *ret_bytes, file) != *ret_bytes)
		die(path, "cannot be read");
	fclose(file);
	if (!*ret_bytes || data[*ret_bytes - 1])
		die(path, "ends in the middle");
	return data;
}

int main(int argc, char **words)
{
	sigset_t none;
	size_t bytes;
	char *data;

	if (argc != 2)
		die("usage", "rem-service FILE");
	data = read_file(words[1], &bytes);
	for (size_t at = 0; at < bytes;) {
		size_t length = strlen(data + at);

		take(data + at);
		at += length + 1;
	}
	if (uid < 0 || gid < 0 || !cwd || !argv_count)
		die(words[1], "uid, gid, cwd or arg is missing");
	/* Programs open /dev/stdout, which is this pipe, as that user. */
	if (fchown(STDOUT_FILENO, (uid_t)uid, (gid_t)gid))
		perror("rem-service: owner of the output");
	if (setgroups(group_count, groups) || setgid((gid_t)gid) ||
	    setuid((uid_t)uid))
		die("user", strerror(errno));
	if (chdir(cwd))
		die(cwd, strerror(errno));
	/* The shell that started this one ignores some signals. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	environ = env; /* PATH of the image finds the program */
	execvp(argv[0], argv);
	die(argv[0], strerror(errno));
}
