/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmbc: block segments, for programs by /dev/pmbc and for pmramd.
 *
 * Locks: readers share, a writer is alone, by a reader-writer semaphore of the
 * kernel's: first come, first served, but for readers beside a reader; a waiting
 * writer holds later readers back, so neither starves.
 */
#ifndef PMBC_H
#define PMBC_H

#include "block.h"

struct pm_ioc_block;
struct pmbc;
struct pmcore_segment;

/**
 * pmbc_open() - open a block segment; lay it out if nothing ever was
 * @name: of the segment
 * @mask: MAY_READ, MAY_WRITE
 *
 * Context: may sleep; takes time with the number of blocks for the first user.
 * Return: the segment or an ERR_PTR().
 */
struct pmbc *pmbc_open(const char *name, int mask);

/**
 * pmbc_close() - undo pmbc_open()
 * @pmbc: what it returned
 */
void pmbc_close(struct pmbc *pmbc);

/**
 * pmbc_claim() - whether the segment is a disk, to which programs do not write
 * @pmbc: the segment
 * @claimed: whether it is from now on
 */
void pmbc_claim(struct pmbc *pmbc, bool claimed);

/* Where a block that is read goes. */
struct pm_block_to {
	u64 block;
	void *data;
};

/**
 * pmbc_read() - read blocks of one moment
 * @pmbc: the segment
 * @io: the blocks
 * @count: how many
 *
 * Return: 0; -EBADMSG if one does not check, then that one's @data is zeros.
 */
int pmbc_read(struct pmbc *pmbc, const struct pm_block_to *io, u32 count);

/**
 * pmbc_write() - a transaction
 * @pmbc: the segment
 * @io: the blocks
 * @count: how many, at most pmbc_transaction_max()
 *
 * Return: 0: all are durable. Else none was changed.
 */
int pmbc_write(struct pmbc *pmbc, const struct pm_block_io *io, u32 count);

/* Below: between the files of pmbc, but for what is about its size. */
void pmbc_fill_format(const struct pmcore_segment *segment,
		      struct pm_block_format *format);
int pmbc_resize(void __user *user);
int pmbc_transfer(struct pmbc *pmbc, const struct pm_ioc_block __user *user,
		  u32 count, bool writes);

u32 pmbc_transaction_max(const struct pmbc *pmbc);
u32 pmbc_block_bytes(const struct pmbc *pmbc);
u64 pmbc_blocks(const struct pmbc *pmbc);

#endif /* PMBC_H */
