// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording.h"

static int read_base(const char *dir, rem_u64 offset, rem_u64 bytes, rem_u8 *to)
{
	char path[4096];
	rem_u64 done = 0;
	int file;

	snprintf(path, sizeof(path), "%s/base.media", dir);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -errno;
	while (done < bytes) {
		ssize_t got = pread(file, to + done, bytes - done,
				    (off_t)(offset + done));

		if (got <= 0) {
			close(file);
			return got ? -errno : -ENODATA;
		}
		done += (rem_u64)got;
	}
	close(file);
	return 0;
}

static int map_events(struct recording *ret, const char *dir)
{
	char path[4096];
	struct stat is;
	void *map;
	int file, err = 0;

	snprintf(path, sizeof(path), "%s/recording.bin", dir);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -errno;
	if (fstat(file, &is))
		err = -errno;
	if (!err && is.st_size < (off_t)sizeof(struct rem_rec_header))
		err = -ENODATA;
	if (!err) {
		map = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE,
			   file, 0);
		if (map == MAP_FAILED)
			err = -errno;
	}
	close(file);
	if (err)
		return err;
	ret->file = map;
	ret->bytes = (size_t)is.st_size;
	return 0;
}

int recording_open(struct recording *ret, const char *dir, rem_u64 region,
		   rem_u64 region_bytes, rem_u8 *ret_media)
{
	struct rem_rec_header header;
	int err = map_events(ret, dir);

	if (err)
		return err;
	memcpy(&header, ret->file, sizeof(header));
	if (header.magic != REM_REC_MAGIC ||
	    header.version != REM_REC_VERSION ||
	    header.header_bytes != sizeof(header) ||
	    region < header.nvram_phys || region_bytes > header.nvram_bytes ||
	    region - header.nvram_phys > header.nvram_bytes - region_bytes)
		return -EPROTO;
	ret->at = sizeof(header);
	ret->region = region;
	ret->region_bytes = region_bytes;
	return read_base(dir, region - header.nvram_phys, region_bytes,
			 ret_media);
}

static bool has_address(rem_u8 kind)
{
	return kind == REM_REC_STORE || kind == REM_REC_WRITEBACK ||
	       kind == REM_REC_FLUSH || kind == REM_REC_UNSEEN ||
	       kind == REM_REC_LINE;
}

bool recording_next(struct recording *recording, struct happened *ret)
{
	size_t left = recording->bytes - recording->at;
	struct rem_rec_event head;
	rem_u64 address = 0;
	size_t whole;

	if (left < sizeof(head))
		return false;
	memcpy(&head, recording->file + recording->at, sizeof(head));
	whole = sizeof(head) + ((size_t)head.payload_bytes + 7) / 8 * 8;
	if (!head.kind || head.payload_bytes > REM_REC_PAYLOAD_MAX ||
	    left < whole)
		return false;
	*ret = (struct happened){ .kind = head.kind, .aux = head.aux };
	if (has_address(head.kind) && head.payload_bytes >= sizeof(address)) {
		const rem_u8 *payload =
			recording->file + recording->at + sizeof(head);

		memcpy(&address, payload, sizeof(address));
		ret->data = payload + sizeof(address);
		ret->bytes = head.payload_bytes - (rem_u32)sizeof(address);
		ret->offset = address - recording->region;
		if (address < recording->region ||
		    ret->offset >= recording->region_bytes)
			ret->kind = 0;
		if (head.kind == REM_REC_STORE &&
		    address % REM_REC_LINE_BYTES + ret->bytes >
			    REM_REC_LINE_BYTES)
			return false; /* no such store: it is damaged */
	}
	recording->at += whole;
	return true;
}
