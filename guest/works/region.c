// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * region FILE PROGRAM [WORD ...]: runs a program between two lines of its
 * standard input, so that counters can be read at both.
 *
 *	READY			and waits for a line
 *	REGION ns=N peak_kib=N	the program has ended: its time by the wall
 *				clock, and the most memory of it or one of its
 *				children; and waits for another
 *
 * Then it prints what the program has written, which FILE has, and ends with
 * the program's code.
 */
#include "check.h"
#include "line.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOT_STARTED 127
#define KILLED 126
#define LINE_BYTES 64

static void wait_line(void)
{
	char line[LINE_BYTES];

	if (!line_wait(line, sizeof(line)))
		check_fail("nobody counts");
}

static void run(const char *file, char **argv)
{
	int to = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int from = open("/dev/null", O_RDONLY);

	if (to < 0 || from < 0 || dup2(from, STDIN_FILENO) < 0 ||
	    dup2(to, STDOUT_FILENO) < 0 || dup2(to, STDERR_FILENO) < 0)
		check_fail_errno(file);
	execvp(argv[0], argv);
	perror(argv[0]);
	_exit(NOT_STARTED);
}

static void show(const char *file)
{
	char part[4096];
	size_t bytes;
	FILE *from = fopen(file, "r");

	if (!from)
		check_fail_errno(file);
	while ((bytes = fread(part, 1, sizeof(part), from)) > 0)
		fwrite(part, 1, bytes, stdout);
	fclose(from);
}

int main(int argc, char **argv)
{
	int64_t begin_ns, took_ns;
	struct rusage usage;
	int status;
	pid_t child;

	if (argc < 3) {
		fprintf(stderr, "usage: region FILE PROGRAM [WORD ...]\n");
		return 2;
	}
	printf("READY\n");
	fflush(stdout);
	wait_line();
	begin_ns = check_now_ns(CLOCK_REALTIME);
	child = fork();
	if (child == 0)
		run(argv[1], argv + 2);
	if (child < 0 || waitpid(child, &status, 0) != child)
		check_fail_errno(argv[2]);
	took_ns = check_now_ns(CLOCK_REALTIME) - begin_ns;
	if (getrusage(RUSAGE_CHILDREN, &usage))
		check_fail_errno("getrusage");
	printf("REGION ns=%lld peak_kib=%ld\n", (long long)took_ns,
	       usage.ru_maxrss);
	fflush(stdout);
	wait_line();
	show(argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : KILLED;
}
