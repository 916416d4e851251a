// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Backup of a segment: a head, the content, and CRC32C of both behind it. An
 * import reads and checks the whole file before there is a segment, and a segment
 * whose content could not be written is destroyed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pmadmin.h"

#define MAGIC "REMPMEXP"
#define VERSION 1
#define PIECE_BYTES 65536      /* at least the largest block */
#define POLYNOMIAL 0x82f63b78u /* of CRC32C, bits reversed */

struct head {
	char magic[8];
	uint32_t version;
	uint32_t type;
	uint64_t bytes; /* of the segment */
	uint64_t content_bytes;
	uint64_t map_address;
	uint32_t block_bytes;
	uint32_t mode;
	uint32_t persist;
	uint32_t reserved;
};

struct file {
	int fd;
	uint32_t crc;
};

static uint32_t crc_add(uint32_t crc, const unsigned char *data, size_t bytes)
{
	static uint32_t table[256];

	for (uint32_t i = table[1] ? 256 : 0; i < 256; i++) {
		uint32_t value = i;

		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? POLYNOMIAL : 0);
		table[i] = value;
	}
	while (bytes--)
		crc = crc >> 8 ^ table[(crc ^ *data++) & 255];
	return crc;
}

static int put(struct file *file, const void *data, size_t bytes)
{
	const char *at = data;

	file->crc = crc_add(file->crc, data, bytes);
	while (bytes) {
		ssize_t done = write(file->fd, at, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -ENOSPC;
		at += done;
		bytes -= (size_t)done;
	}
	return 0;
}

static int take(struct file *file, void *data, size_t bytes)
{
	char *at = data;
	size_t left = bytes;

	while (left) {
		ssize_t done = read(file->fd, at, left);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -ENODATA;
		at += done;
		left -= (size_t)done;
	}
	file->crc = crc_add(file->crc, data, bytes);
	return 0;
}

/* The content of a segment of either kind, in pieces of whole blocks. */
struct content {
	struct pm_map *map;
	struct pm_blocks *blocks;
	uint64_t bytes;
	uint32_t block_bytes;
};

static int content_open(struct pm *pm, const char *name, bool may_write,
			const struct pm_ioc_segment *segment,
			struct content *ret)
{
	struct pm_ioc_block_status is;
	int err;

	memset(ret, 0, sizeof(*ret));
	if (segment->type == PM_TYPE_RAW) {
		ret->bytes = segment->bytes;
		return pm_map(pm, name, may_write, &ret->map);
	}
	err = pm_blocks_open(name, &ret->blocks);
	if (err)
		return err;
	err = pm_blocks_status(ret->blocks, &is);
	ret->block_bytes = is.block_bytes;
	ret->bytes = is.blocks * is.block_bytes;
	return err;
}

static void content_close(struct content *content)
{
	pm_unmap(content->map);
	pm_blocks_close(content->blocks);
}

/* One block a call: a damaged one is named, and none is exported as good. */
static int move_block(struct content *content, uint64_t block, void *data,
		      bool writes)
{
	struct pm_ioc_block io = { .block = block, .data = (uintptr_t)data };
	int err = writes ? pm_blocks_write(content->blocks, &io, 1) :
			   pm_blocks_read(content->blocks, &io, 1);

	if (err == -EBADMSG)
		fprintf(stderr, "pmadmin: block %llu is damaged\n",
			(unsigned long long)block);
	return err;
}

static int move_piece(struct content *content, uint64_t at, void *data,
		      size_t bytes, bool writes)
{
	char *memory;

	if (content->map) {
		memory = (char *)pm_map_address(content->map) + at;
		memcpy(writes ? memory : data, writes ? data : memory, bytes);
		if (writes)
			pm_persist(memory, bytes);
		return 0;
	}
	for (size_t done = 0; done < bytes; done += content->block_bytes) {
		int err = move_block(content,
				     (at + done) / content->block_bytes,
				     (char *)data + done, writes);

		if (err)
			return err;
	}
	return 0;
}

static size_t piece(uint64_t left)
{
	return left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
}

static int export_all(struct file *file, struct content *content,
		      const struct pm_ioc_segment *segment)
{
	static char data[PIECE_BYTES];
	struct head head = {
		.version = VERSION,
		.type = segment->type,
		.bytes = segment->bytes,
		.content_bytes = content->bytes,
		.map_address = segment->map_address,
		.block_bytes = segment->block_bytes,
		.mode = segment->mode,
		.persist = segment->persist,
	};
	uint32_t crc;
	int err;

	memcpy(head.magic, MAGIC, sizeof(head.magic));
	err = put(file, &head, sizeof(head));
	for (uint64_t at = 0; at < content->bytes && !err; at += PIECE_BYTES) {
		size_t bytes = piece(content->bytes - at);

		err = move_piece(content, at, data, bytes, false);
		if (!err)
			err = put(file, data, bytes);
	}
	crc = ~file->crc;
	if (!err)
		err = put(file, &crc, sizeof(crc));
	return err || !fsync(file->fd) ? err : -errno;
}

int export_segment(struct pm *pm, const char *name, const char *path)
{
	struct file file = { .crc = ~0u };
	struct pm_ioc_segment segment;
	struct content content;
	int err = pm_get(pm, name, &segment);

	if (err)
		return fail(name, err);
	err = content_open(pm, name, false, &segment, &content);
	if (!err) {
		file.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			       0600);
		err = file.fd < 0 ? -errno :
				    export_all(&file, &content, &segment);
		if (file.fd >= 0 && close(file.fd) && !err)
			err = -errno;
		if (err && file.fd >= 0)
			unlink(path);
	}
	content_close(&content);
	return err ? fail(path, err) : EXIT_DONE;
}

static bool is_sound(const struct head *head)
{
	return !memcmp(head->magic, MAGIC, sizeof(head->magic)) &&
	       head->version == VERSION && !head->reserved;
}

/* Reads the whole file: 0 only if each byte of it is what was exported. */
static int check(struct file *file, struct head *head)
{
	static char data[PIECE_BYTES];
	uint32_t crc, expected;
	struct stat is;
	int err = take(file, head, sizeof(*head));

	if (err)
		return err;
	if (!is_sound(head) || fstat(file->fd, &is) ||
	    (uint64_t)is.st_size !=
		    sizeof(*head) + head->content_bytes + sizeof(crc))
		return -EBADMSG;
	for (uint64_t at = 0; at < head->content_bytes && !err;
	     at += PIECE_BYTES)
		err = take(file, data, piece(head->content_bytes - at));
	expected = ~file->crc;
	if (!err)
		err = take(file, &crc, sizeof(crc));
	if (!err && crc != expected)
		err = -EBADMSG;
	return err;
}

static int import_all(struct pm *pm, const char *name, struct file *file,
		      const struct head *head,
		      const struct pm_ioc_segment *segment)
{
	static char data[PIECE_BYTES];
	struct content content;
	int err = content_open(pm, name, true, segment, &content);

	if (!err && content.bytes != head->content_bytes)
		err = -EBADMSG;
	if (!err && lseek(file->fd, sizeof(*head), SEEK_SET) < 0)
		err = -errno;
	for (uint64_t at = 0; !err && at < content.bytes; at += PIECE_BYTES) {
		size_t bytes = piece(content.bytes - at);

		err = take(file, data, bytes);
		if (!err)
			err = move_piece(&content, at, data, bytes, true);
	}
	content_close(&content);
	return err;
}

int import_segment(struct pm *pm, const char *name, const char *path)
{
	struct file file = { .crc = ~0u };
	struct pm_ioc_segment segment = { .slot = PM_SLOT_BY_NAME };
	struct head head;
	int err;

	if (strlen(name) >= PM_NAME_BYTES)
		return fail(name, -ENAMETOOLONG);
	strcpy(segment.name, name);
	file.fd = open(path, O_RDONLY | O_CLOEXEC);
	err = file.fd < 0 ? -errno : check(&file, &head);
	if (err) {
		fprintf(stderr, "pmadmin: %s: %s\n", path,
			err == -EBADMSG || err == -ENODATA ?
				"it is not what was exported: take another copy" :
				strerror(-err));
		if (file.fd >= 0)
			close(file.fd);
		return EXIT_FAILED;
	}
	segment.type = head.type;
	segment.bytes = head.bytes;
	segment.block_bytes = head.block_bytes;
	segment.mode = head.mode;
	segment.map_address = head.map_address;
	segment.persist = head.persist;
	err = pm_create(pm, &segment);
	if (!err) {
		err = import_all(pm, name, &file, &head, &segment);
		if (err)
			pm_destroy(pm, name);
	}
	close(file.fd);
	return err ? fail(name, err) : EXIT_DONE;
}
