// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A mail server's load on a file system, with the proportions of Filebench's varmail.
 *
 *     mail_load FOLDER MAILS SECONDS
 *
 * FOLDER has MAILS mails in DIRS boxes; if it does not exist, they are delivered first. One round
 * deletes a mail, delivers another one in its place (a file in tmp, its fsync, its rename into the
 * box), reads a second mail and appends to it (fsync), and reads a third. Which ones, and how
 * large, follows from a fixed seed. Rounds go on for SECONDS of the monotonic clock; the last line
 * is "ROUNDS NANOSECONDS".
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DIRS = 10, MEAN_BYTES = 16384, BUFFER_BYTES = 2 * MEAN_BYTES, NAME_BYTES = 64 };

static char buffer[BUFFER_BYTES];
static uint64_t delivered;

static uint64_t next_random(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static const char *name_of(uint64_t mail)
{
	static char name[NAME_BYTES];

	snprintf(name, sizeof(name), "box%d/%d", (int)(mail % DIRS), (int)mail);
	return name;
}

static int open_or_end(const char *name, int flags)
{
	int fd = open(name, flags, 0600);

	if (fd < 0)
		err(1, "%s", name);
	return fd;
}

/* Between one byte and twice the mean, then fsync. */
static void add(int fd)
{
	size_t bytes = 1 + next_random() % BUFFER_BYTES;

	if (write(fd, buffer, bytes) != (ssize_t)bytes)
		err(1, "write");
	if (fsync(fd))
		err(1, "fsync");
}

static void read_whole(int fd)
{
	ssize_t bytes;

	do
		bytes = read(fd, buffer, sizeof(buffer));
	while (bytes > 0);
	if (bytes < 0)
		err(1, "read");
}

static void deliver(uint64_t mail)
{
	char name[NAME_BYTES];
	int fd;

	snprintf(name, sizeof(name), "tmp/%d", (int)delivered++);
	fd = open_or_end(name, O_WRONLY | O_CREAT | O_EXCL);
	add(fd);
	close(fd);
	if (rename(name, name_of(mail)))
		err(1, "rename of %s", name);
}

static void use(uint64_t mail, int appends)
{
	int fd = open_or_end(name_of(mail), O_RDWR | O_APPEND);

	read_whole(fd);
	if (appends)
		add(fd);
	close(fd);
}

static void make(const char *folder, uint64_t mails)
{
	char name[NAME_BYTES];

	if (mkdir(folder, 0700) && errno != EEXIST)
		err(1, "%s", folder);
	if (chdir(folder))
		err(1, "%s", folder);
	if (mkdir("tmp", 0700)) {
		if (errno != EEXIST)
			err(1, "tmp");
		return;
	}
	for (int i = 0; i < DIRS; i++) {
		snprintf(name, sizeof(name), "box%d", i);
		if (mkdir(name, 0700))
			err(1, "%s", name);
	}
	for (uint64_t mail = 0; mail < mails; mail++)
		deliver(mail);
}

int main(int argc, char **argv)
{
	uint64_t mails, begin_ns, end_ns, at_ns, rounds = 0;

	if (argc != 4)
		errx(2, "usage: mail_load FOLDER MAILS SECONDS");
	mails = strtoull(argv[2], NULL, 10);
	if (mails < 3)
		errx(2, "%s mails: give 3 or more", argv[2]);
	memset(buffer, 'm', sizeof(buffer));
	make(argv[1], mails);
	begin_ns = now_ns();
	end_ns = begin_ns + (uint64_t)(strtod(argv[3], NULL) * 1e9);
	do {
		uint64_t mail = next_random() % mails;

		if (unlink(name_of(mail)))
			err(1, "unlink of %s", name_of(mail));
		deliver(mail);
		use(next_random() % mails, 1);
		use(next_random() % mails, 0);
		rounds++;
		at_ns = now_ns();
	} while (at_ns < end_ns);
	printf("%llu %llu\n", (unsigned long long)rounds,
	       (unsigned long long)(at_ns - begin_ns));
	return 0;
}
