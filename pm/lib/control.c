// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Segments as a whole: /dev/pmctl, /dev/pmramd. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "libpm.h"

struct pm {
	int fd;
};

static int call(int fd, unsigned long command, void *argument)
{
	int done;

	do
		done = ioctl(fd, command, argument);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : 0;
}

static int set_name(char *to, const char *name)
{
	size_t length = strlen(name);

	if (length >= PM_NAME_BYTES)
		return -ENAMETOOLONG;
	memset(to, 0, PM_NAME_BYTES);
	memcpy(to, name, length);
	return 0;
}

int pm_open(struct pm **ret, int may_write)
{
	struct pm *pm = malloc(sizeof(*pm));
	int err;

	if (!pm)
		return -ENOMEM;
	pm->fd =
		open("/dev/pmctl", (may_write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (pm->fd < 0) {
		err = -errno;
		free(pm);
		return err;
	}
	*ret = pm;
	return 0;
}

void pm_close(struct pm *pm)
{
	if (!pm)
		return;
	close(pm->fd);
	free(pm);
}

int pm_poll_fd(const struct pm *pm)
{
	return pm->fd;
}

int pm_status(struct pm *pm, struct pm_ioc_status *ret)
{
	return call(pm->fd, PM_IOC_STATUS, ret);
}

int pm_get(struct pm *pm, const char *name, struct pm_ioc_segment *ret)
{
	struct pm_ioc_segment segment = { .slot = PM_SLOT_BY_NAME };
	int err = set_name(segment.name, name);

	if (!err)
		err = call(pm->fd, PM_IOC_GET, &segment);
	if (!err)
		*ret = segment;
	return err;
}

int pm_next(struct pm *pm, uint32_t *slot, struct pm_ioc_segment *ret)
{
	struct pm_ioc_status status;
	int err = pm_status(pm, &status);

	for (; !err && *slot < status.slots; ++*slot) {
		struct pm_ioc_segment segment = { .slot = *slot };

		err = call(pm->fd, PM_IOC_GET, &segment);
		if (!err) {
			*ret = segment;
			return 0;
		}
		if (err == -ENOENT)
			err = 0;
	}
	return err ? err : -ENOENT;
}

int pm_create(struct pm *pm, struct pm_ioc_segment *segment)
{
	struct pm_ioc_segment wanted = *segment;
	int err = call(pm->fd, PM_IOC_CREATE, &wanted);

	if (!err)
		*segment = wanted;
	return err;
}

int pm_destroy(struct pm *pm, const char *name)
{
	struct pm_ioc_segment segment = { .slot = PM_SLOT_BY_NAME };
	int err = set_name(segment.name, name);

	return err ? err : call(pm->fd, PM_IOC_DESTROY, &segment);
}

static int resize_blocks(const char *name, uint64_t bytes)
{
	struct pm_ioc_resize wanted = { .bytes = bytes };
	int err = set_name(wanted.name, name);
	int fd = open("/dev/pmbc", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (!err)
		err = call(fd, PMBC_IOC_RESIZE, &wanted);
	close(fd);
	return err;
}

int pm_resize(struct pm *pm, const char *name, uint64_t bytes, int may_move)
{
	struct pm_ioc_segment segment = {
		.slot = PM_SLOT_BY_NAME,
		.bytes = bytes,
		.flags = may_move ? PM_FLAG_MAY_MOVE : 0,
	};
	int err = set_name(segment.name, name);

	if (!err)
		err = call(pm->fd, PM_IOC_RESIZE, &segment);
	return err == -EOPNOTSUPP && may_move ? resize_blocks(name, bytes) :
						err;
}

int pm_change(struct pm *pm, const struct pm_ioc_segment *segment)
{
	struct pm_ioc_segment wanted = *segment;

	return call(pm->fd, PM_IOC_CHANGE, &wanted);
}

int pm_give_up(struct pm *pm, uint32_t slot)
{
	struct pm_ioc_segment segment = { .slot = slot };

	return call(pm->fd, PM_IOC_GIVE_UP, &segment);
}

int pm_resize_region(struct pm *pm, uint64_t bytes)
{
	return call(pm->fd, PM_IOC_WISH, &bytes);
}

int pm_check(struct pm *pm, struct pm_ioc_status *ret)
{
	return call(pm->fd, PM_IOC_SCRUB, ret);
}

static int on_disk(const char *name, unsigned long command,
		   struct pm_ioc_disk *disk)
{
	int err = set_name(disk->name, name);
	int fd;

	if (err)
		return err;
	fd = open("/dev/pmramd", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = call(fd, command, disk);
	close(fd);
	return err;
}

int pm_disk_add(const char *name, struct pm_ioc_disk *ret)
{
	struct pm_ioc_disk disk = { 0 };
	int err = on_disk(name, PMRAMD_IOC_ADD, &disk);

	if (!err)
		*ret = disk;
	return err;
}

int pm_disk_remove(const char *name)
{
	struct pm_ioc_disk disk = { 0 };

	return on_disk(name, PMRAMD_IOC_REMOVE, &disk);
}
