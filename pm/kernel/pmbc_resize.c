// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resizes a block segment: its blocks are copied to another place, which becomes
 * the segment's at one instant (pmcore_rebuild()).
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "pmbc.h"
#include "pmcore.h"

static void give_back(const struct pm_block_lent *lent)
{
	kvfree(lent->from);
	kvfree(lent->to);
	kvfree(lent->buffer);
}

/* Memory for what opening both sizes takes; of one never laid out, little. */
static int lend(struct pm_block_lent *lent, const void *from, u64 from_bytes,
		const struct pm_block_format *format)
{
	struct rem_pm_block_header old = {}, new;
	int err = pm_block_peek(from, from_bytes, format->uuid, &old);

	if (err == -ENOMEDIUM)
		err = 0;
	if (!err)
		err = pm_block_plan(format, &new);
	if (err)
		return err;
	lent->from = kvzalloc(pm_block_volatile_bytes(&old) + 1, GFP_KERNEL);
	lent->to = kvzalloc(pm_block_volatile_bytes(&new), GFP_KERNEL);
	lent->buffer = kvmalloc(format->block_bytes, GFP_KERNEL);
	return lent->from && lent->to && lent->buffer ? 0 : -ENOMEM;
}

static int fill(void *context, void *from, rem_u64 from_bytes, void *to,
		rem_u64 room_bytes)
{
	const struct pm_block_format *format = context;
	struct pm_block_lent lent = {};
	int err = lend(&lent, from, from_bytes, format);

	if (!err)
		err = pm_block_rebuild(NULL, from, from_bytes, to, format,
				       &lent);
	give_back(&lent);
	return err;
}

/**
 * pmbc_resize() - PMBC_IOC_RESIZE
 * @user: struct pm_ioc_resize
 *
 * Return: 0: it has that size, durably. Else it is as it was.
 */
int pmbc_resize(void __user *user)
{
	struct pmcore_segment segment;
	struct pm_block_format format;
	struct pm_ioc_resize in;
	int err;

	if (copy_from_user(&in, user, sizeof(in)))
		return -EFAULT;
	if (in.name[PM_NAME_BYTES - 1] || in.reserved || !in.bytes)
		return -EINVAL;
	err = pmcore_get(in.name, MAY_READ | MAY_WRITE, &segment);
	if (err)
		return err;
	pmcore_put(&segment);
	if (segment.type != REM_PM_BLOCK)
		return -EMEDIUMTYPE;
	/* One of that name that was made meanwhile has another UUID. */
	segment.bytes = in.bytes;
	pmbc_fill_format(&segment, &format);
	return pmcore_rebuild(in.name, in.bytes, fill, &format);
}
