// SPDX-License-Identifier: GPL-2.0-only
/*
 * Blocks between a program's memory and a segment. What is written is taken from
 * the program's own pages where a block lies in one of them, and copied first where
 * not; it is looked at once in either case (pm_copy_crc32c()), so that a program that
 * changes it meanwhile gets a block that checks, whichever bytes of it that are.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "pmbc.h"
#include "rem_pm_uapi.h"

#define FEW 4 /* blocks for which nothing is allocated but what they are copied to */
#define READ_BYTES_MAX 4194304 /* of one call: it is kept in memory */

/* One block's way to the segment. */
struct lent {
	struct page *page; /* the program's, or NULL */
	void *copy;
};

struct call {
	struct pmbc *pmbc;
	u32 count;
	u32 bytes;
	const struct pm_ioc_block *io;
	struct lent *lent;
	struct pm_block_io *own;
};

static int copy_in(struct lent *lent, const void __user *from, u32 bytes)
{
	lent->copy = kvmalloc(bytes, GFP_KERNEL);
	if (!lent->copy)
		return -ENOMEM;
	return copy_from_user(lent->copy, from, bytes) ? -EFAULT : 0;
}

static int lend(struct call *call, u32 i)
{
	unsigned long from = call->io[i].data;
	struct lent *lent = &call->lent[i];
	int err;

	if (call->io[i].block >= pmbc_blocks(call->pmbc))
		return -ERANGE;
	call->own[i].block = call->io[i].block;
	if (!from)
		return 0;
	/* What is no ordinary memory (a mapped segment) cannot be pinned. */
	if (offset_in_page(from) + call->bytes <= PAGE_SIZE &&
	    pin_user_pages_fast(from & PAGE_MASK, 1, 0, &lent->page) == 1) {
		call->own[i].data =
			page_address(lent->page) + offset_in_page(from);
		return 0;
	}
	lent->page = NULL;
	err = copy_in(lent, u64_to_user_ptr(call->io[i].data),
		      call->bytes);
	call->own[i].data = lent->copy;
	return err;
}

static int write_all(struct call *call)
{
	int err = 0;
	u32 i;

	for (i = 0; i < call->count && !err; i++)
		err = lend(call, i);
	if (!err)
		err = pmbc_write(call->pmbc, call->own, call->count);
	for (i = 0; i < call->count; i++) {
		if (call->lent[i].page)
			unpin_user_page(call->lent[i].page);
		kvfree(call->lent[i].copy);
	}
	return err;
}

static int begin_write(struct pmbc *pmbc, const struct pm_ioc_block *io,
		       u32 count)
{
	struct pm_block_io few_own[FEW] = {};
	struct lent few_lent[FEW] = {};
	struct call call = {
		.pmbc = pmbc,
		.count = count,
		.bytes = pmbc_block_bytes(pmbc),
		.io = io,
		.lent = few_lent,
		.own = few_own,
	};
	int err = -ENOMEM;

	if (count > FEW) {
		call.own = kvcalloc(count, sizeof(*call.own), GFP_KERNEL);
		call.lent = kvcalloc(count, sizeof(*call.lent), GFP_KERNEL);
	}
	if (call.own && call.lent)
		err = write_all(&call);
	if (count > FEW) {
		kvfree(call.lent);
		kvfree(call.own);
	}
	return err;
}

static int read_all(struct pmbc *pmbc, const struct pm_ioc_block *io, u32 count)
{
	u32 bytes = pmbc_block_bytes(pmbc);
	struct pm_block_to *to;
	int err = -ENOMEM;
	void *buffer;
	u32 i;

	to = kvcalloc(count, sizeof(*to), GFP_KERNEL);
	buffer = kvmalloc_array(count, bytes, GFP_KERNEL);
	for (i = 0; to && buffer && i < count; i++)
		to[i] = (struct pm_block_to){ io[i].block,
					      buffer + (size_t)i * bytes };
	if (to && buffer)
		err = pmbc_read(pmbc, to, count);
	for (i = 0; i < count && !err; i++)
		if (copy_to_user(u64_to_user_ptr(io[i].data), to[i].data,
				 bytes))
			err = -EFAULT;
	kvfree(buffer);
	kvfree(to);
	return err;
}

/**
 * pmbc_transfer() - read blocks for a program, or write them as a transaction
 * @pmbc: the segment
 * @user: the blocks
 * @count: how many
 * @writes: which of the two
 *
 * Context: may sleep. Return: as pmbc_read() and pmbc_write(); -E2BIG, -EFAULT.
 */
int pmbc_transfer(struct pmbc *pmbc, const struct pm_ioc_block __user *user,
		  u32 count, bool writes)
{
	u32 max = writes ? pmbc_transaction_max(pmbc) :
			   READ_BYTES_MAX / pmbc_block_bytes(pmbc);
	struct pm_ioc_block few[FEW], *io = few;
	int err;

	if (count > max)
		return -E2BIG;
	if (!count)
		return 0;
	if (count > FEW) {
		io = vmemdup_user(user, count * sizeof(*io));
		if (IS_ERR(io))
			return PTR_ERR(io);
	} else if (copy_from_user(few, user, count * sizeof(*io))) {
		return -EFAULT;
	}
	err = writes ? begin_write(pmbc, io, count) : read_all(pmbc, io, count);
	if (io != few)
		kvfree(io);
	return err;
}
