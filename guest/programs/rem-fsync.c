// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-fsync: is everything that was acknowledged as durable on the disk, once?
 *
 * Writer: --path FILE [--mode fsync|dsync|direct] [--slots N] [--ack HOST:PORT]
 * writes numbered, checksummed records of 4 KiB. Record n goes to slot
 * (n - 1) mod N, so the file is bounded. When the disk has acknowledged record
 * n, and not before, n is sent to --ack as eight bytes, little-endian, if
 * given: the receiver knows a number that must be found after any crash.
 *
 * Checker: --check 1 --path FILE --acked N [--slots N] verifies the file: each
 * record up to N is in its slot, unless a newer one took the slot; nothing is
 * anywhere else. A record in flight at a crash may be there, torn or absent.
 */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_BYTES 4096UL
#define RECORD_MAGIC 0x434e595346534d52ULL
#define SLOTS_DEFAULT 8192

struct record {
	uint64_t magic;
	uint64_t number;
	uint8_t payload[RECORD_BYTES - 24];
	uint32_t reserved;
	uint32_t crc; /* of all before it */
};

_Static_assert(sizeof(struct record) == RECORD_BYTES, "no padding");

static uint64_t slots;

static off_t slot_offset(uint64_t number)
{
	return (off_t)((number - 1) % slots * RECORD_BYTES);
}

static void make_record(struct record *record, uint64_t number)
{
	record->magic = RECORD_MAGIC;
	record->number = number;
	record->reserved = 0;
	check_fill(record->payload, sizeof(record->payload), number);
	record->crc = check_crc32(record, offsetof(struct record, crc));
}

static bool is_record(const struct record *record)
{
	return record->magic == RECORD_MAGIC && record->number &&
	       !record->reserved &&
	       record->crc ==
		       check_crc32(record, offsetof(struct record, crc)) &&
	       check_is_filled(record->payload, sizeof(record->payload),
			       record->number);
}

static int open_writer(const char *path, const char *mode)
{
	int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
	int fd;

	if (!strcmp(mode, "dsync"))
		flags |= O_DSYNC;
	else if (!strcmp(mode, "direct"))
		flags |= O_DIRECT;
	else if (strcmp(mode, "fsync"))
		check_fail("--mode %s: fsync, dsync or direct", mode);
	fd = open(path, flags, 0600);
	if (fd < 0)
		check_fail_errno(path);
	return fd;
}

static int connect_ack(const char *where)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const char *colon = where ? strrchr(where, ':') : NULL;
	char host[64] = "";
	int one = 1;
	int fd;

	if (!where)
		return -1;
	if (!colon || (size_t)(colon - where) >= sizeof(host))
		check_fail("--ack %s is not HOST:PORT", where);
	memcpy(host, where, (size_t)(colon - where));
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		check_fail("--ack %s: %s is not an IPv4 address", where, host);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		check_fail_errno(where);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static int run_writer(const char *path)
{
	const char *mode = check_option("mode", "fsync");
	struct record *record = aligned_alloc(RECORD_BYTES, RECORD_BYTES);
	struct record *again = aligned_alloc(RECORD_BYTES, RECORD_BYTES);
	int fd = open_writer(path, mode);
	int ack_fd = connect_ack(check_option("ack", NULL));
	uint64_t number = 0;

	if (!record || !again)
		check_fail("out of memory");
	while (check_go_on(number)) {
		off_t offset = slot_offset(number + 1);

		make_record(record, number + 1);
		if (pwrite(fd, record, RECORD_BYTES, offset) !=
		    (ssize_t)RECORD_BYTES)
			check_fail_errno("write");
		/* O_DIRECT bypasses the page cache, not the disk's own. */
		if (strcmp(mode, "dsync") && fdatasync(fd))
			check_fail_errno("fdatasync");
		number++;
		if (ack_fd >= 0)
			check_write(ack_fd, &number, sizeof(number));
		if (pread(fd, again, RECORD_BYTES, offset) !=
			    (ssize_t)RECORD_BYTES ||
		    memcmp(record, again, RECORD_BYTES))
			check_fail("record %llu is not what was written",
				   (unsigned long long)number);
		if (check_asked())
			check_at("records=%llu", (unsigned long long)number);
	}
	return check_ok("records=%llu mode=%s", (unsigned long long)number,
			mode);
}

/* True if @number may legally be what slot of @expected holds. */
static bool may_hold(uint64_t number, uint64_t expected, uint64_t acked)
{
	if (number == expected)
		return true;
	return number == expected + slots && number > acked;
}

static int run_check(const char *path)
{
	struct record *record = malloc(RECORD_BYTES);
	uint64_t acked = check_number("acked", 0);
	uint64_t first = acked > slots ? acked - slots + 1 : 1;
	uint64_t newest = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		check_fail_errno(path);
	if (!record)
		check_fail("out of memory");
	for (uint64_t n = first; n <= acked; n++) {
		ssize_t got = pread(fd, record, RECORD_BYTES, slot_offset(n));
		/* The slot that record acked + 1 was going to, torn or not. */
		bool in_flight = n + slots == acked + 1;

		if (got == (ssize_t)RECORD_BYTES && is_record(record) &&
		    may_hold(record->number, n, acked)) {
			if (record->number > newest)
				newest = record->number;
		} else if (!in_flight) {
			check_fail("acknowledged record %llu is not there",
				   (unsigned long long)n);
		}
	}
	for (uint64_t n = acked + 1; n <= slots; n++) {
		ssize_t got = pread(fd, record, RECORD_BYTES, slot_offset(n));

		if (got != (ssize_t)RECORD_BYTES || !is_record(record))
			continue;
		if (record->number != n)
			check_fail("record %llu is where %llu belongs",
				   (unsigned long long)record->number,
				   (unsigned long long)n);
		if (n > acked + 1 && newest < n - 1)
			check_fail("record %llu is there, %llu is not",
				   (unsigned long long)n,
				   (unsigned long long)n - 1);
		newest = n;
	}
	return check_ok("acked=%llu newest=%llu", (unsigned long long)acked,
			(unsigned long long)newest);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "path",  "mode",  "slots", "ack",
					     "check", "acked", NULL };
	const char *path;

	check_begin(argc, argv, extra);
	path = check_option("path", "/root/rem-fsync.data");
	slots = check_number("slots", SLOTS_DEFAULT);
	if (!slots)
		check_fail("--slots is 0");
	return check_number("check", 0) ? run_check(path) : run_writer(path);
}
