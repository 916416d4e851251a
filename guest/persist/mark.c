// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-mark BYTE [PID]: tells the plugin when, by that byte at the port of
 * power-on self-tests, which nothing reads. With PID: when that process ends.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PORT 0x80

static int failed(const char *what)
{
	fprintf(stderr, "rem-mark: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fputs("rem-mark BYTE [PID]\n", stderr);
		return 2;
	}
	if (ioperm(PORT, 1, 1))
		return failed("ioperm");
	if (argc == 3) {
		struct pollfd ended = { .events = POLLIN };

		ended.fd = (int)syscall(SYS_pidfd_open, atoi(argv[2]), 0);
		/* Where there is no such process it has ended. */
		if (ended.fd < 0 && errno != ESRCH)
			return failed(argv[2]);
		while (ended.fd >= 0 && poll(&ended, 1, -1) < 0)
			if (errno != EINTR)
				return failed("poll");
	}
	outb((unsigned char)atoi(argv[1]), PORT);
	return 0;
}
