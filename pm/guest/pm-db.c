// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * In the guest, and an example of libpm: a database in main memory whose table
 * and index lie in a segment of persistent memory, beside the same table in
 * ordinary memory with a copy in a file. Lines: NAME NUMBER.
 *
 *   pm-db fill WAY PLACE DEVICE ROWS   insert rows, then change each of them
 *   pm-db look WAY PLACE ROWS          open what is there, look each row up
 *
 * WAY, and what PLACE is:
 *   memory   no place: the rows are gone with the program
 *   segment  a segment: each row is durable before the next
 *   loose    a segment, and nothing is flushed: what caches lose is lost
 *   mapped   a file, mapped and never synced: the page cache writes it back
 *   cache    a file to which each row is appended by write(2), never synced
 *   sync     the same, with fdatasync(2) after each row
 *
 * What DEVICE below /sys/block was asked for meanwhile is counted; `-`: none.
 *
 * In a segment a row changes at one store. The new row is written into a free
 * place and flushed; then the word of the index that finds it is stored and
 * flushed. A cut leaves the old row or the new one, and the next program finds
 * all rows by the index, without reading them. A file needs a log, and a
 * program that reads all of it: pages may reach a disk in any order.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libpm.h"

#define MAGIC 0x3142444d50ull
#define LINE_BYTES 64
#define ROWS_MAX 20000	      /* of the paper's benchmark */
#define PLACES (ROWS_MAX + 1) /* a row is never changed where it is */
#define BUCKETS 32768
#define LOG_ROWS (2 * ROWS_MAX) /* each is inserted and changed once */
#define WORDS 13		/* of a value: 104 bytes, pm-rows.py has 100 */

struct row {
	uint64_t key;
	uint64_t version; /* 1 when inserted, 2 when changed */
	uint64_t check;	  /* of the rest, never that of zeros */
	uint64_t value[WORDS];
};

struct table {
	uint64_t magic; /* stored last */
	uint64_t reserved[7];
	uint64_t bucket[BUCKETS]; /* the row's place, plus 1; 0: none */
	struct row row[PLACES];
};

_Static_assert(sizeof(struct row) == 2 * LINE_BYTES, "whole lines");
_Static_assert(offsetof(struct table, row) % LINE_BYTES == 0, "whole lines");
_Static_assert(BUCKETS > PLACES, "a search ends at an empty bucket");

enum way { MEMORY, SEGMENT, LOOSE, MAPPED, CACHE, SYNC, WAYS };

static const char *const way_names[WAYS] = {
	"memory", "segment", "loose", "mapped", "cache", "sync",
};

struct database {
	enum way way;
	struct table *table;
	int log; /* a file, or -1 */
	off_t log_bytes;
	/* Places without a row: found again when the database is opened. */
	uint32_t free[PLACES];
	uint32_t free_count;
	unsigned long lines; /* flushed */
};

static void die(const char *what, int err)
{
	fprintf(stderr, "pm-db: %s: %s\n", what, strerror(err));
	exit(4);
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static uint64_t mix(uint64_t word)
{
	word *= 0x9e3779b97f4a7c15ull;
	return word ^ word >> 29;
}

static uint64_t check_of(const struct row *row)
{
	uint64_t check = mix(row->key + 1) + row->version;

	for (int i = 0; i < WORDS; i++)
		check = mix(check ^ row->value[i]) + 1;
	return check;
}

static void make_row(struct row *row, uint64_t key, uint64_t version)
{
	row->key = key;
	row->version = version;
	for (uint64_t i = 0; i < WORDS; i++)
		row->value[i] = mix(key) + version * WORDS + i;
	row->check = check_of(row);
}

/* Whether a row is the one that was made for @key. */
static bool is_right(const struct row *row, uint64_t key)
{
	struct row wanted;

	if (row->version < 1 || row->version > 2)
		return false;
	make_row(&wanted, key, row->version);
	return !memcmp(&wanted, row, sizeof(wanted));
}

/* Where the index has @key, or would have it. */
static uint64_t *bucket_of(struct table *table, uint64_t key)
{
	for (uint64_t i = mix(key) % BUCKETS;; i = (i + 1) % BUCKETS) {
		uint64_t place = table->bucket[i];

		if (!place || table->row[place - 1].key == key)
			return &table->bucket[i];
	}
}

/* What was stored there is durable before what follows. */
static void keep(struct database *db, const void *at, size_t bytes)
{
	if (db->way != SEGMENT)
		return;
	pm_persist(at, bytes);
	db->lines += (bytes + LINE_BYTES - 1) / LINE_BYTES;
}

static void place_row(struct database *db, const struct row *row)
{
	uint64_t *bucket = bucket_of(db->table, row->key);
	uint64_t before = *bucket;
	uint32_t place;

	if (!db->free_count)
		die("rows", ENOSPC);
	place = db->free[--db->free_count];
	memcpy(&db->table->row[place], row, sizeof(*row));
	keep(db, &db->table->row[place], sizeof(*row));
	__atomic_store_n(bucket, place + 1ull, __ATOMIC_RELEASE);
	keep(db, bucket, sizeof(*bucket));
	if (before)
		db->free[db->free_count++] = (uint32_t)(before - 1);
}

static void log_row(struct database *db, const struct row *row)
{
	if (pwrite(db->log, row, sizeof(*row), db->log_bytes) != sizeof(*row))
		die("log", errno);
	db->log_bytes += (off_t)sizeof(*row);
	if (db->way == SYNC && fdatasync(db->log))
		die("log", errno);
}

static void put(struct database *db, uint64_t key, uint64_t version)
{
	struct row row;

	make_row(&row, key, version);
	if (db->log >= 0)
		log_row(db, &row);
	place_row(db, &row);
}

/* A file of zeros that are on the disk, so that no row changes its size. */
static int make_file(const char *path, size_t bytes)
{
	static const char zeros[1 << 16];
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return open(path, O_RDWR | O_CLOEXEC);
	for (size_t at = 0; fd >= 0 && at < bytes; at += sizeof(zeros))
		if (write(fd, zeros, sizeof(zeros)) != sizeof(zeros))
			die(path, errno);
	if (fd < 0 || fsync(fd))
		die(path, errno);
	return fd;
}

static struct table *map_file(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *at = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE,
			flags, fd, 0);

	if (at == MAP_FAILED)
		die("mmap", errno);
	return at;
}

static struct table *map_segment(const char *name)
{
	struct pm_map *map;
	struct pm *pm;
	int err = pm_open(&pm, true);

	if (!err)
		err = pm_map(pm, name, true, &map);
	if (!err && pm_map_bytes(map) < sizeof(struct table))
		err = -EFBIG;
	if (err)
		die(name, -err);
	pm_close(pm);
	return pm_map_address(map);
}

/* An empty table; all its pages are there afterwards, whatever it lies in. */
static void make_table(struct database *db)
{
	memset(db->table, 0, sizeof(*db->table));
	keep(db, db->table, sizeof(*db->table));
	__atomic_store_n(&db->table->magic, MAGIC, __ATOMIC_RELEASE);
	keep(db, &db->table->magic, sizeof(db->table->magic));
	if (db->way == MAPPED && msync(db->table, sizeof(*db->table), MS_SYNC))
		die("msync", errno);
	db->lines = 0;
}

static void find_free(struct database *db)
{
	static bool is_used[PLACES];

	for (int i = 0; i < BUCKETS; i++) {
		uint64_t place = db->table->bucket[i];

		if (place > PLACES || (place && is_used[place - 1]))
			die("index", EBADMSG);
		if (place)
			is_used[place - 1] = true;
	}
	for (uint32_t place = PLACES; place--;)
		if (!is_used[place])
			db->free[db->free_count++] = place;
}

/* Rows up to the first that is not whole: none behind it was acknowledged. */
static void read_log(struct database *db)
{
	struct row row;

	while (pread(db->log, &row, sizeof(row), db->log_bytes) ==
		       sizeof(row) &&
	       row.check == check_of(&row)) {
		place_row(db, &row);
		db->log_bytes += (off_t)sizeof(row);
	}
}

static void open_database(struct database *db, enum way way, const char *place)
{
	db->way = way;
	db->log = -1;
	if (way == SEGMENT || way == LOOSE)
		db->table = map_segment(place);
	else
		db->table = map_file(
			way == MAPPED ? make_file(place, sizeof(struct table)) :
					-1);
	if (db->table->magic != MAGIC)
		make_table(db);
	find_free(db);
	if (way != CACHE && way != SYNC)
		return;
	db->log = make_file(place, LOG_ROWS * sizeof(struct row));
	read_log(db);
}

/* Writes and flushes so far of a disk. */
static void asked(const char *device, long long *writes, long long *flushes)
{
	char path[128];
	FILE *file;

	*writes = *flushes = 0;
	if (!strcmp(device, "-"))
		return;
	snprintf(path, sizeof(path), "/sys/block/%s/stat", device);
	file = fopen(path, "r");
	if (!file || fscanf(file,
			    "%*u %*u %*u %*u %lld %*u %*u %*u %*u %*u %*u "
			    "%*u %*u %*u %*u %lld",
			    writes, flushes) != 2)
		die(path, errno);
	fclose(file);
}

/* In an order in which neighbours are far apart; each key once. */
static uint64_t key_of(uint64_t number, uint64_t rows)
{
	return number * 7919 % rows;
}

static void fill_once(struct database *db, const char *device, uint64_t rows,
		      uint64_t version)
{
	const char *what = version == 1 ? "insert" : "change";
	long long writes, flushes, writes_after, flushes_after, took_ns;

	asked(device, &writes, &flushes);
	took_ns = now_ns();
	for (uint64_t number = 0; number < rows; number++)
		put(db, key_of(number, rows), version);
	took_ns = now_ns() - took_ns;
	asked(device, &writes_after, &flushes_after);
	printf("%s_wall_ns %lld\n%s_writes %lld\n%s_flushes %lld\n", what,
	       took_ns, what, writes_after - writes, what,
	       flushes_after - flushes);
}

/* Prints how many of the rows are there, are changed, are not what was put. */
static void count_rows(struct database *db, uint64_t rows)
{
	long long found = 0, changed = 0, wrong = 0;

	for (uint64_t key = 0; key < rows; key++) {
		uint64_t place = *bucket_of(db->table, key);
		const struct row *row;

		if (!place)
			continue;
		row = &db->table->row[place - 1];
		found++;
		changed += row->version == 2;
		wrong += !is_right(row, key);
	}
	printf("rows %lld\nchanged %lld\nwrong %lld\n", found, changed, wrong);
}

int main(int argc, char **argv)
{
	static struct database db;
	bool fills = argc == 6 && !strcmp(argv[1], "fill");
	long rows = argc > 2 ? atol(argv[argc - 1]) : 0;
	long long begin_ns = now_ns();
	int way = 0;

	while (argc > 2 && way < WAYS && strcmp(argv[2], way_names[way]))
		way++;
	if ((!fills && (argc != 5 || strcmp(argv[1], "look"))) || way == WAYS ||
	    rows < 1 || rows > ROWS_MAX || rows % 7919 == 0) {
		fprintf(stderr,
			"usage: pm-db fill WAY PLACE DEVICE ROWS | look WAY PLACE ROWS\n");
		return 2;
	}
	open_database(&db, (enum way)way, argv[3]);
	printf("open_ns %lld\n", now_ns() - begin_ns);
	if (fills) {
		fill_once(&db, argv[4], (uint64_t)rows, 1);
		fill_once(&db, argv[4], (uint64_t)rows, 2);
		printf("lines %lu\n", db.lines);
	}
	count_rows(&db, (uint64_t)rows);
	return 0;
}
