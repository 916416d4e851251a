/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A line of standard input for which a program waits while counters are read.
 */
#ifndef LINE_H
#define LINE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#define LINE_SPIN_TURNS 200000 /* a tenth of a millisecond */

/*
 * Without sleeping: while all CPUs of an emulated machine are halted, its clock
 * jumps from timer to timer, and what they run would be counted, too. The loop
 * has no access to memory.
 *
 * False at the end of the input, and if the line is longer than @bytes - 1.
 */
static inline bool line_wait(char *line, size_t bytes)
{
	size_t length = 0;

	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	while (length < bytes) {
		ssize_t done = read(STDIN_FILENO, &line[length], 1);

		if (!done || (done < 0 && errno != EAGAIN))
			return false;
		if (done > 0 && line[length++] == '\n') {
			line[length - 1] = 0;
			return true;
		}
		for (long turn = 0; done < 0 && turn < LINE_SPIN_TURNS; turn++)
			__asm__ volatile("");
	}
	return false;
}

#endif /* LINE_H */
