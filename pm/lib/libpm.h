/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libpm: persistent memory for programs.
 *
 * Every function returns 0 or more on success and a negative errno on failure.
 * Nothing prints, exits, or keeps state outside of what it returns. One struct pm
 * may be used by several threads at once; of a struct pm_blocks each thread that
 * wants to wait for itself alone opens its own.
 */
#ifndef LIBPM_H
#define LIBPM_H

#include <stddef.h>
#include <stdint.h>

#include "rem_pm_uapi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pm;
struct pm_map;
struct pm_blocks;

/* @may_write: to change something; else to look only. */
int pm_open(struct pm **ret, int may_write);
void pm_close(struct pm *pm);
/* A descriptor that poll() calls readable when something has changed. */
int pm_poll_fd(const struct pm *pm);

int pm_status(struct pm *pm, struct pm_ioc_status *ret);
int pm_get(struct pm *pm, const char *name, struct pm_ioc_segment *ret);
/* The first segment in slot *@slot or behind; -ENOENT after the last. */
int pm_next(struct pm *pm, uint32_t *slot, struct pm_ioc_segment *ret);
/* Only what PM_IOC_CREATE names is looked at; the rest is filled in. */
int pm_create(struct pm *pm, struct pm_ioc_segment *segment);
int pm_destroy(struct pm *pm, const char *name);
/*
 * @may_move: if there is no room behind it. A block segment is copied elsewhere:
 * -EFBIG if a block that was written has no place in the new size.
 */
int pm_resize(struct pm *pm, const char *name, uint64_t bytes, int may_move);
/* Owner, group, mode and map address are set to those of @segment. */
int pm_change(struct pm *pm, const struct pm_ioc_segment *segment);
/* Give up a slot that is damaged in all copies: what it held is lost. */
int pm_give_up(struct pm *pm, uint32_t slot);
/* The size of the region from the next boot on; 0 takes the wish back. */
int pm_resize_region(struct pm *pm, uint64_t bytes);
/* Look at all copies of the base segment and repair them. */
int pm_check(struct pm *pm, struct pm_ioc_status *ret);

/*
 * Map a raw segment; at its map address if it has one, so that pointers in it
 * stay valid from one boot to the next (-EADDRINUSE if something is there).
 */
int pm_map(struct pm *pm, const char *name, int may_write, struct pm_map **ret);
void *pm_map_address(const struct pm_map *map);
size_t pm_map_bytes(const struct pm_map *map);
/* Make stores into [at, at + bytes) of a mapping durable. */
void pm_persist(const void *at, size_t bytes);
void pm_unmap(struct pm_map *map);

int pm_blocks_open(const char *name, struct pm_blocks **ret);
void pm_blocks_close(struct pm_blocks *blocks);
int pm_blocks_status(struct pm_blocks *blocks, struct pm_ioc_block_status *ret);
/* All of one moment, each checked: -EBADMSG and nothing if one does not. */
int pm_blocks_read(struct pm_blocks *blocks, const struct pm_ioc_block *io,
		   uint32_t count);
/* A transaction: all are durable on return, or none was changed. */
int pm_blocks_write(struct pm_blocks *blocks, const struct pm_ioc_block *io,
		    uint32_t count);
/*
 * A lock for what is more than one transaction; others that ask for it wait, or
 * with @wait 0 get -EAGAIN. Held until pm_blocks_unlock() or pm_blocks_close(), or
 * the end of the program. First come, first served; who does not want it @exclusive
 * has it beside others. -EDEADLK: @blocks holds it already; -ENOLCK: it does not.
 */
int pm_blocks_lock(struct pm_blocks *blocks, int exclusive, int wait);
int pm_blocks_unlock(struct pm_blocks *blocks);
/*
 * Blocks from @first on that were found damaged since the segment was opened, in
 * order: how many of @count. One that is written again is on the list no more.
 */
int pm_blocks_bad(struct pm_blocks *blocks, uint64_t first, uint64_t *ret,
		  uint32_t count);
int pm_blocks_scrub(struct pm_blocks *blocks, struct pm_ioc_block_status *ret);

/* Make a disk of a segment. @ret: its name below /dev, whether it has DAX. */
int pm_disk_add(const char *name, struct pm_ioc_disk *ret);
int pm_disk_remove(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* LIBPM_H */
