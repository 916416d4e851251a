// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * PID 1 of a guest whose disk is looked at: processes that write numbered blocks, and say over a
 * serial line what they have asked for (>), what was acknowledged (=), and what failed (!).
 *
 * A block has its writer and its number in each word. Writer W writes its number N to the block
 * 2 * (W * PLACES + N % PLACES): there are gaps, so that the kernel makes one request of each write.
 * Writes are not cached, and durable when they end.
 *
 *	vm_blocks DISK LINE WRITERS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#define BLOCK_BYTES 4096
#define PLACES 4
#define PAUSE_US 20000

static int line;

static void say(char what, int writer, uint32_t number, int error)
{
	char text[64];
	int length = snprintf(text, sizeof(text), "%c %d %u %d.\n", what,
			      writer, number, error);

	// One call: lines of several processes do not mix.
	if (write(line, text, length) != length)
		_exit(2);
}

int main(int argc, char **argv)
{
	struct termios mode;
	int disk, writer = 0;
	uint64_t *block;

	if (argc != 4)
		return 2;
	line = open(argv[2], O_RDWR | O_NOCTTY);
	if (tcgetattr(line, &mode) == 0) {
		cfmakeraw(&mode);
		tcsetattr(line, TCSANOW, &mode);
	}
	while (writer < atoi(argv[3]) - 1 && fork() == 0)
		writer++;
	disk = open(argv[1], O_WRONLY | O_DIRECT | O_DSYNC);
	if (disk < 0 ||
	    posix_memalign((void **)&block, BLOCK_BYTES, BLOCK_BYTES)) {
		say('?', writer, 0, errno);
		return 2;
	}
	for (uint32_t number = 1;; number++) {
		off_t at = 2 * ((off_t)writer * PLACES + number % PLACES);
		ssize_t written;

		for (int word = 0; word < BLOCK_BYTES / 8; word++)
			block[word] = (uint64_t)writer << 32 | number;
		say('>', writer, number, 0);
		written = pwrite(disk, block, BLOCK_BYTES, at * BLOCK_BYTES);
		say(written == BLOCK_BYTES ? '=' : '!', writer, number,
		    written < 0 ? errno : 0);
		usleep(PAUSE_US);
	}
}
