// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-mark begin | fail | done PID: the plugin of a machine takes its counters when
 * the function of that name is reached, which the Makefile puts at a fixed
 * address. done: when that process has ended.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline, section(".mark_begin"))) static void mark_begin(void)
{
	__asm__ volatile("");
}

__attribute__((noinline, section(".mark_fail"))) static void mark_fail(void)
{
	__asm__ volatile("");
}

__attribute__((noinline, section(".mark_done"))) static void mark_done(void)
{
	__asm__ volatile("");
}

static int failed(const char *what)
{
	fprintf(stderr, "rem-mark: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "begin")) {
		mark_begin();
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "fail")) {
		mark_fail();
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "done")) {
		struct pollfd ended = { .events = POLLIN };

		ended.fd = (int)syscall(SYS_pidfd_open, atoi(argv[2]), 0);
		/* Where there is no such process it has ended. */
		if (ended.fd < 0 && errno != ESRCH)
			return failed(argv[2]);
		while (ended.fd >= 0 && poll(&ended, 1, -1) < 0)
			if (errno != EINTR)
				return failed("poll");
		mark_done();
		return 0;
	}
	fputs("rem-mark begin | fail | done PID\n", stderr);
	return 2;
}
