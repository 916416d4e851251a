// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What is in segments: mappings, and blocks by /dev/pmbc. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libpm.h"

#define LINE_BYTES 64

struct pm_map {
	void *address;
	size_t bytes;
};

struct pm_blocks {
	int fd;
	char name[PM_NAME_BYTES];
};

int pm_map(struct pm *pm, const char *name, int may_write, struct pm_map **ret)
{
	struct pm_ioc_segment segment;
	char path[PM_NAME_BYTES + 16];
	struct pm_map *map;
	int fixed, fd, err = pm_get(pm, name, &segment);

	if (err)
		return err;
	map = malloc(sizeof(*map));
	if (!map)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/dev/pm/%s", name);
	fd = open(path, (may_write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		free(map);
		return err;
	}
	map->bytes = segment.bytes;
	fixed = segment.map_address ? MAP_FIXED_NOREPLACE : 0;
	map->address = mmap((void *)(uintptr_t)segment.map_address, map->bytes,
			    may_write ? PROT_READ | PROT_WRITE : PROT_READ,
			    MAP_SHARED | fixed, fd, 0);
	err = map->address == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err) {
		free(map);
		return err == -EEXIST ? -EADDRINUSE : err;
	}
	*ret = map;
	return 0;
}

void *pm_map_address(const struct pm_map *map)
{
	return map->address;
}

size_t pm_map_bytes(const struct pm_map *map)
{
	return map->bytes;
}

/* CLFLUSH is on every x86-64, and ordered with stores to the same line. */
void pm_persist(const void *at, size_t bytes)
{
	const char *line = (const char *)((uintptr_t)at & ~(LINE_BYTES - 1ull));

	for (; line < (const char *)at + bytes; line += LINE_BYTES)
		__builtin_ia32_clflush(line);
	__builtin_ia32_sfence();
}

void pm_unmap(struct pm_map *map)
{
	if (!map)
		return;
	munmap(map->address, map->bytes);
	free(map);
}

static int call(int fd, unsigned long command, void *argument)
{
	int done;

	do
		done = ioctl(fd, command, argument);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : 0;
}

int pm_blocks_open(const char *name, struct pm_blocks **ret)
{
	struct pm_ioc_block_status status;
	struct pm_blocks *blocks;
	int err;

	if (strlen(name) >= PM_NAME_BYTES)
		return -ENAMETOOLONG;
	blocks = calloc(1, sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	memcpy(blocks->name, name, strlen(name));
	blocks->fd = open("/dev/pmbc", O_RDWR | O_CLOEXEC);
	err = blocks->fd < 0 ? -errno : pm_blocks_status(blocks, &status);
	if (err) {
		pm_blocks_close(blocks);
		return err;
	}
	*ret = blocks;
	return 0;
}

void pm_blocks_close(struct pm_blocks *blocks)
{
	if (!blocks)
		return;
	if (blocks->fd >= 0)
		close(blocks->fd);
	free(blocks);
}

static int on_status(struct pm_blocks *blocks, unsigned long command,
		     struct pm_ioc_block_status *ret)
{
	struct pm_ioc_block_status status = { 0 };
	int err;

	memcpy(status.name, blocks->name, sizeof(status.name));
	err = call(blocks->fd, command, &status);
	if (!err)
		*ret = status;
	return err;
}

int pm_blocks_status(struct pm_blocks *blocks, struct pm_ioc_block_status *ret)
{
	return on_status(blocks, PMBC_IOC_STATUS, ret);
}

int pm_blocks_bad(struct pm_blocks *blocks, uint64_t first, uint64_t *ret,
		  uint32_t count)
{
	struct pm_ioc_bad bad = {
		.first = first,
		.blocks = (uintptr_t)ret,
		.count = count < PM_BAD_MAX ? count : PM_BAD_MAX,
	};
	int err;

	memcpy(bad.name, blocks->name, sizeof(bad.name));
	err = call(blocks->fd, PMBC_IOC_BAD, &bad);
	return err ? err : (int)bad.count;
}

int pm_blocks_scrub(struct pm_blocks *blocks, struct pm_ioc_block_status *ret)
{
	return on_status(blocks, PMBC_IOC_SCRUB, ret);
}

static int transfer(struct pm_blocks *blocks, unsigned long command,
		    const struct pm_ioc_block *io, uint32_t count)
{
	struct pm_ioc_transfer all = {
		.io = (uintptr_t)io,
		.count = count,
	};

	memcpy(all.name, blocks->name, sizeof(all.name));
	return call(blocks->fd, command, &all);
}

int pm_blocks_read(struct pm_blocks *blocks, const struct pm_ioc_block *io,
		   uint32_t count)
{
	return transfer(blocks, PMBC_IOC_READ, io, count);
}

int pm_blocks_write(struct pm_blocks *blocks, const struct pm_ioc_block *io,
		    uint32_t count)
{
	return transfer(blocks, PMBC_IOC_WRITE, io, count);
}

static int lock(struct pm_blocks *blocks, uint32_t mode, uint32_t flags)
{
	struct pm_ioc_lock lock = { .mode = mode, .flags = flags };

	memcpy(lock.name, blocks->name, sizeof(lock.name));
	return call(blocks->fd, PMBC_IOC_LOCK, &lock);
}

int pm_blocks_lock(struct pm_blocks *blocks, int exclusive, int wait)
{
	return lock(blocks, exclusive ? PM_LOCK_EXCLUSIVE : PM_LOCK_SHARED,
		    wait ? 0 : PM_LOCK_AT_ONCE);
}

int pm_blocks_unlock(struct pm_blocks *blocks)
{
	return lock(blocks, PM_LOCK_NONE, 0);
}
