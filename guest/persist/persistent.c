// SPDX-License-Identifier: Apache-2.0 OR MIT
/* See persistent.h. */
#include "persistent.h"
#include "check.h"

#include <cpuid.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif
#define CPUID_7_EBX_CLWB (1u << 24)

static bool has_clwb;

void *persistent_map(const char *path, size_t bytes, int is_volatile)
{
	unsigned int eax, ebx = 0, ecx, edx;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat found;
	void *at;

	if (fd < 0 || fstat(fd, &found))
		check_fail_errno(path);
	/* Blocks are allocated and zeroed before the first store. */
	if ((size_t)found.st_size < bytes &&
	    (ftruncate(fd, (off_t)bytes) ||
	     posix_fallocate(fd, 0, (off_t)bytes) || fsync(fd)))
		check_fail_errno(path);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		  is_volatile ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC, fd,
		  0);
	if (at == MAP_FAILED)
		check_fail_errno("mmap with MAP_SYNC");
	close(fd);
	__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
	has_clwb = ebx & CPUID_7_EBX_CLWB;
	return at;
}

void persistent_write_back(const void *from, size_t bytes)
{
	uintptr_t line = (uintptr_t)from & ~(uintptr_t)(LINE_BYTES - 1);
	uintptr_t end = (uintptr_t)from + bytes;

	for (; line < end; line += LINE_BYTES) {
		if (has_clwb)
			__asm__ volatile("clwb %0"
					 : "+m"(*(volatile char *)line));
		else
			__asm__ volatile("clflush %0"
					 : "+m"(*(volatile char *)line));
	}
}

void persistent_fence(void)
{
	__asm__ volatile("sfence" ::: "memory");
}
