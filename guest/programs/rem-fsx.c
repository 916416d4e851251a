// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-fsx: does a file hold what was put into it, whatever way it was?
 *
 * The method is that of Apple's fsx: operations on one file, chosen at random
 * from a seed, and a model in memory with which each read is compared.
 *
 * --path FILE [--seed N] [--bytes MOST] [--lacks KIND,KIND] [--hold 1]: after
 * each operation that makes all before it durable it prints `ack fsx N`, N the
 * number of operations so far. With --hold it does not end after --count, but
 * prints `ack done N` and waits to be ended by a crash.
 *
 * --check 1 --acked N [--done M]: after a crash. Each byte has to be as after
 * one of the operations from that which last made it durable, of the first N,
 * up to M, or AHEAD more than N: nothing older, and nothing that was never
 * there. A size the same.
 */
#include "check.h"
#include "fsx_model.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Operations that may have been done, and whose acknowledgement got lost. */
#define AHEAD 400
#define WHOLE_EACH 64 /* operations: then all of the file is compared */
#define SHOWN 40UL    /* the last operations, if something is wrong */
#define BYTES_DEFAULT (256UL << 10)

static const char *path;
static int fd, dsync_fd, direct_fd;
static struct fsx_model model;
static unsigned char *map;    /* as long as the file may be, while it is open */
static unsigned char *buffer; /* aligned, of model.most and a block */
static struct fsx_op shown[SHOWN];

static void print_op(uint64_t number, const struct fsx_op *op)
{
	fprintf(stderr, "%llu %s%s at %#zx, %#zx bytes",
		(unsigned long long)number, fsx_names[op->kind],
		op->flag ? "*" : "", op->at, op->bytes);
	if (op->kind == FSX_COPY || op->kind == FSX_CLONE)
		fprintf(stderr, " from %#zx", op->from);
	fputc('\n', stderr);
}

static void print_last(void)
{
	uint64_t first = model.done > SHOWN ? model.done - SHOWN : 0;

	for (uint64_t n = first; n < model.done; n++)
		print_op(n, &shown[n % SHOWN]);
}

static _Noreturn void wrong(const char *what, size_t at, unsigned int found,
			    unsigned int wanted)
{
	print_last();
	check_fail("operation=%llu %s: byte %#zx is %#x, not %#x; size=%#zx",
		   (unsigned long long)model.done, what, at, found, wanted,
		   model.size);
}

static _Noreturn void refused(const struct fsx_op *op)
{
	int err = errno;

	print_last();
	check_fail("operation=%llu %s at %#zx, %#zx bytes: %s",
		   (unsigned long long)model.done, fsx_names[op->kind], op->at,
		   op->bytes, strerror(err));
}

static void compare(const char *what, const unsigned char *found, size_t at,
		    size_t bytes)
{
	if (!memcmp(found, model.content + at, bytes))
		return;
	for (size_t i = 0; i < bytes; i++)
		if (found[i] != model.content[at + i])
			wrong(what, at + i, found[i], model.content[at + i]);
}

/* What of @bytes from @at on is within the file. */
static size_t within(size_t at, size_t bytes)
{
	if (at >= model.size)
		return 0;
	return bytes < model.size - at ? bytes : model.size - at;
}

static void read_and_compare(const char *what, int from, size_t at,
			     size_t bytes)
{
	size_t wanted = within(at, bytes), got = 0;

	while (got < wanted) {
		ssize_t more = pread(from, buffer + got, bytes - got,
				     (off_t)(at + got));

		if (more < 0)
			check_fail_errno(what);
		if (!more)
			break;
		got += (size_t)more;
	}
	if (got != wanted)
		wrong(what, at + got, 0, model.content[at + got]);
	compare(what, buffer, at, wanted);
}

static void compare_whole(void)
{
	struct stat stat;

	if (fstat(fd, &stat))
		check_fail_errno("fstat");
	if ((size_t)stat.st_size != model.size) {
		print_last();
		check_fail("operation=%llu size=%#zx, not %#zx",
			   (unsigned long long)model.done, (size_t)stat.st_size,
			   model.size);
	}
	read_and_compare("the whole file", fd, 0, model.size);
}

static void open_all(int flags)
{
	flags |= O_RDWR | O_CLOEXEC;
	fd = open(path, flags, 0600);
	flags &= ~O_TRUNC;
	dsync_fd = open(path, flags | O_DSYNC, 0600);
	if (!model.lacks[FSX_DIRECT] || !model.lacks[FSX_DIRECT_READ])
		flags |= O_DIRECT;
	direct_fd = open(path, flags, 0600);
	if (fd < 0 || dsync_fd < 0 || direct_fd < 0)
		check_fail_errno(path);
	map = mmap(NULL, model.most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		check_fail_errno("mmap");
}

static void close_all(void)
{
	if (munmap(map, model.most) || close(fd) || close(dsync_fd) ||
	    close(direct_fd))
		check_fail_errno("close");
}

static bool do_write(int to, const struct fsx_op *op)
{
	size_t put = 0;

	check_fill(buffer, op->bytes, op->fill);
	while (put < op->bytes) {
		ssize_t more = pwrite(to, buffer + put, op->bytes - put,
				      (off_t)(op->at + put));

		if (more <= 0)
			return false;
		put += (size_t)more;
	}
	return true;
}

/* The mapping's last page goes on with zeros where the file has ended. */
static void compare_page_end(void)
{
	size_t at = model.size;

	for (; at % FSX_BLOCK_BYTES; at++)
		if (map[at])
			wrong("behind the end", at, map[at], 0);
}

static bool do_mapped(const struct fsx_op *op)
{
	size_t start = op->at / FSX_BLOCK_BYTES * FSX_BLOCK_BYTES;

	if (op->kind == FSX_MAPREAD) {
		compare("mapread", map + op->at, op->at, op->bytes);
		if (op->at + op->bytes == model.size)
			compare_page_end();
		return true;
	}
	check_fill(map + op->at, op->bytes, op->fill);
	return !op->flag ||
	       !msync(map + start, op->at + op->bytes - start, MS_SYNC);
}

static bool do_allocate(const struct fsx_op *op)
{
	int mode = op->flag ? FALLOC_FL_KEEP_SIZE : 0;

	if (op->kind == FSX_PUNCH)
		mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	else if (op->kind == FSX_ZERO)
		mode |= FALLOC_FL_ZERO_RANGE;
	else if (op->kind == FSX_COLLAPSE)
		mode = FALLOC_FL_COLLAPSE_RANGE;
	else if (op->kind == FSX_INSERT)
		mode = FALLOC_FL_INSERT_RANGE;
	return !fallocate(fd, mode, (off_t)op->at, (off_t)op->bytes);
}

static bool do_copy(const struct fsx_op *op)
{
	loff_t from = (loff_t)op->from, to = (loff_t)op->at;
	size_t left = op->bytes;

	while (left) {
		ssize_t more = copy_file_range(fd, &from, fd, &to, left, 0);

		if (more <= 0)
			return false;
		left -= (size_t)more;
	}
	return true;
}

static bool do_clone(const struct fsx_op *op)
{
	struct file_clone_range range = {
		.src_fd = fd,
		.src_offset = op->from,
		.src_length = op->bytes,
		.dest_offset = op->at,
	};

	return !ioctl(fd, FICLONERANGE, &range);
}

static bool do_op(const struct fsx_op *op)
{
	switch (op->kind) {
	case FSX_READ:
		read_and_compare("read", fd, op->at, op->bytes);
		return true;
	case FSX_DIRECT_READ:
		read_and_compare("direct-read", direct_fd, op->at, op->bytes);
		return true;
	case FSX_MAPREAD:
	case FSX_MAPWRITE:
		return do_mapped(op);
	case FSX_WRITE:
		return do_write(fd, op);
	case FSX_DSYNC:
		return do_write(dsync_fd, op);
	case FSX_DIRECT:
		return do_write(direct_fd, op);
	case FSX_TRUNCATE:
		return !(op->flag ? truncate(path, (off_t)op->at) :
				    ftruncate(fd, (off_t)op->at));
	case FSX_COPY:
		return do_copy(op);
	case FSX_CLONE:
		return do_clone(op);
	case FSX_REOPEN:
		close_all();
		open_all(0);
		return true;
	case FSX_FORGET:
		return !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	case FSX_FSYNC:
		return !fsync(fd);
	case FSX_FDATASYNC:
		return !fdatasync(fd);
	case FSX_SYNCFS:
		return !syncfs(fd);
	default:
		return do_allocate(op);
	}
}

/* Whether the kernel would refuse it for its length alone. */
static bool is_empty(const struct fsx_op *op)
{
	return !op->bytes && op->kind != FSX_TRUNCATE &&
	       op->kind != FSX_REOPEN && op->kind != FSX_FORGET &&
	       !fsx_syncs_all(op);
}

static void say_ack(const char *name)
{
	char line[64];
	int used = snprintf(line, sizeof(line), "ack %s %llu\n", name,
			    (unsigned long long)model.done);

	check_write(STDOUT_FILENO, line, (size_t)used);
}

static int run(void)
{
	uint64_t hold = check_number("hold", 0), counts[FSX_KINDS] = { 0 };

	open_all(O_CREAT | O_TRUNC);
	if (fsync(fd))
		check_fail_errno("fsync");
	say_ack("fsx");
	while (check_go_on(model.done)) {
		struct fsx_op op = fsx_draw(&model);

		shown[model.done % SHOWN] = op;
		if (!is_empty(&op) && !do_op(&op))
			refused(&op);
		fsx_apply(&model, &op);
		counts[op.kind] += !is_empty(&op);
		if (fsx_syncs_all(&op))
			say_ack("fsx");
		if (!(model.done % WHOLE_EACH))
			compare_whole();
		if (check_asked())
			check_at("operations=%llu",
				 (unsigned long long)model.done);
	}
	compare_whole();
	if (hold)
		say_ack("done");
	while (hold && check_go_on(0))
		check_sleep_ns(NS_PER_S);
	for (int kind = 0; kind < FSX_KINDS; kind++)
		fprintf(stderr, "%s=%llu ", fsx_names[kind],
			(unsigned long long)counts[kind]);
	fputc('\n', stderr);
	return check_ok("operations=%llu size=%zu",
			(unsigned long long)model.done, model.size);
}

/* What a crash may leave. */
struct allowed {
	unsigned char *bytes; /* per byte: whether the one that is there may be */
	uint64_t *since;      /* operation that last made it durable */
	size_t size_least;
	size_t size_most;
};

static void allow(struct allowed *allowed, const unsigned char *seen,
		  struct fsx_range range)
{
	for (size_t at = range.start; at < range.end; at++)
		if (seen[at] == model.content[at])
			allowed->bytes[at] = true;
}

/* Nothing older than now, in a range. */
static void require(struct allowed *allowed, const unsigned char *seen,
		    struct fsx_range range)
{
	for (size_t at = range.start; at < range.end; at++) {
		allowed->bytes[at] = seen[at] == model.content[at];
		allowed->since[at] = model.done;
	}
}

static void follow(struct allowed *allowed, const unsigned char *seen,
		   uint64_t acked, uint64_t last)
{
	struct fsx_range all = { 0, model.most };

	require(allowed, seen, all);
	while (model.done < last) {
		struct fsx_op op = fsx_draw(&model);
		struct fsx_range range;

		shown[model.done % SHOWN] = op;
		range = fsx_apply(&model, &op);
		allow(allowed, seen, range);
		if (model.size < allowed->size_least)
			allowed->size_least = model.size;
		if (model.size > allowed->size_most)
			allowed->size_most = model.size;
		if (model.done > acked)
			continue;
		if (fsx_syncs_all(&op)) {
			require(allowed, seen, all);
			allowed->size_least = model.size;
			allowed->size_most = model.size;
		} else if (fsx_syncs_itself(&op)) {
			require(allowed, seen, range);
			if (range.end > allowed->size_least)
				allowed->size_least = range.end;
		}
	}
}

static size_t read_all(unsigned char *into, size_t most)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t more;

	if (from < 0)
		check_fail_errno(path);
	while ((more = read(from, into + got, most - got)) > 0)
		got += (size_t)more;
	if (more < 0)
		check_fail_errno(path);
	close(from);
	return got;
}

static int run_check(void)
{
	uint64_t acked = check_number("acked", 0);
	uint64_t last = check_number("done", acked + AHEAD);
	unsigned char *seen = calloc(1, model.most + FSX_BLOCK_BYTES);
	struct allowed allowed = {
		.bytes = calloc(1, model.most),
		.since = calloc(model.most, sizeof(*allowed.since)),
	};
	size_t size;

	if (last < acked)
		check_fail("--done %llu: fewer than --acked",
			   (unsigned long long)last);
	if (!seen || !allowed.bytes || !allowed.since)
		check_fail("out of memory");
	size = read_all(seen, model.most + 1);
	follow(&allowed, seen, acked, last);
	if (size < allowed.size_least || size > allowed.size_most) {
		print_last();
		check_fail("size=%#zx, not from %#zx to %#zx", size,
			   allowed.size_least, allowed.size_most);
	}
	for (size_t at = 0; at < size; at++)
		if (!allowed.bytes[at]) {
			print_last();
			check_fail(
				"byte %#zx is %#x: as after no operation from %llu to %llu; size=%#zx",
				at, seen[at],
				(unsigned long long)allowed.since[at],
				(unsigned long long)last, size);
		}
	return check_ok("acked=%llu done=%llu size=%zu",
			(unsigned long long)acked, (unsigned long long)last,
			size);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "path",  "seed",  "bytes",
					     "lacks", "check", "acked",
					     "done",  "hold",  NULL };

	check_begin(argc, argv, extra);
	path = check_option("path", "/root/rem-fsx.data");
	fsx_begin(&model, check_number("seed", 1),
		  check_number("bytes", BYTES_DEFAULT),
		  check_option("lacks", ""));
	buffer = aligned_alloc(FSX_BLOCK_BYTES, model.most + FSX_BLOCK_BYTES);
	if (!buffer)
		check_fail("out of memory");
	return check_number("check", 0) ? run_check() : run();
}
