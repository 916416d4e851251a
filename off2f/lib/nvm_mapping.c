// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See nvm_mapping.h. */
#define _GNU_SOURCE
#include "nvm_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rem_pm_uapi.h"

#define PAGE_BYTES 4096UL

/* The segment that [@paddr, @paddr + @bytes) lies in, and how far in it. */
static int find(int control, uint64_t paddr, uint64_t bytes,
		struct pm_ioc_segment *segment, uint64_t *inside)
{
	struct pm_ioc_status status;

	if (ioctl(control, PM_IOC_STATUS, &status))
		return -1;
	if (paddr < status.phys || paddr - status.phys >= status.region_bytes) {
		errno = ENXIO;
		return -1;
	}
	for (uint32_t slot = 0; slot < status.slots; slot++) {
		*segment = (struct pm_ioc_segment){ .slot = slot };
		if (ioctl(control, PM_IOC_GET, segment))
			continue;
		*inside = paddr - status.phys - segment->offset;
		if (segment->state == PM_STATE_USED &&
		    segment->type == PM_TYPE_RAW &&
		    paddr - status.phys >= segment->offset &&
		    *inside < segment->bytes &&
		    bytes <= segment->bytes - *inside)
			return 0;
	}
	errno = ENXIO;
	return -1;
}

static int map(const char *name, uint64_t inside, void *vaddr, uint64_t bytes)
{
	int rights = PROT_READ | PROT_WRITE;
	char path[PM_NAME_BYTES + 16];
	void *got;
	int file, kept;

	snprintf(path, sizeof(path), "/dev/pm/%s", name);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0 && errno == EACCES) {
		rights = PROT_READ;
		file = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (file < 0)
		return -1;
	got = mmap(vaddr, bytes, rights, MAP_SHARED | MAP_FIXED_NOREPLACE, file,
		   (off_t)inside);
	kept = errno;
	close(file);
	errno = kept;
	return got == MAP_FAILED ? -1 : 0;
}

int nvm_mapping(uint64_t paddr, void *vaddr, uint64_t pages)
{
	struct pm_ioc_segment segment;
	uint64_t inside;
	int control, err, kept;

	if (paddr % PAGE_BYTES || (uintptr_t)vaddr % PAGE_BYTES || !vaddr ||
	    !pages || pages > UINT64_MAX / PAGE_BYTES) {
		errno = EINVAL;
		return 0;
	}
	control = open("/dev/pmctl", O_RDONLY | O_CLOEXEC);
	if (control < 0) {
		if (errno == ENOENT)
			errno = ENODEV;
		return 0;
	}
	err = find(control, paddr, pages * PAGE_BYTES, &segment, &inside);
	kept = errno;
	close(control);
	errno = kept;
	if (!err)
		err = map(segment.name, inside, vaddr, pages * PAGE_BYTES);
	return !err;
}
