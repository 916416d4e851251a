/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nvm_mapping(): the interface of the paper (Table I) to memory that outlives
 * reboots, given its physical address. What is mapped is a registered segment of
 * the persistent memory region (pm/) and nothing else: RAM, device memory and
 * the region's own tables are never mapped, because the kernel maps segments by
 * their files /dev/pm/NAME and checks the caller's rights to each.
 */
#ifndef NVM_MAPPING_H
#define NVM_MAPPING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * nvm_mapping() - map persistent memory at an address
 * @paddr: first physical address, of a page
 * @vaddr: where it is mapped, of a page; nothing may be mapped there yet
 * @pages: how many pages of 4096 bytes
 *
 * Mapped to be read and written where the caller may write to the segment, else
 * to be read. munmap() ends it.
 *
 * Return: 1; or 0 with errno: EINVAL (no page's address, or no pages), ENXIO (not
 * within one segment), EACCES (no rights), EEXIST (something is mapped there),
 * ENODEV (no region), or what else the kernel says.
 */
int nvm_mapping(uint64_t paddr, void *vaddr, uint64_t pages);

#ifdef __cplusplus
}
#endif

#endif /* NVM_MAPPING_H */
