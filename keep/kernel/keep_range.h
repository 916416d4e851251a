/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The range of non-volatile memory whose pages outlive this kernel.
 */
#ifndef REM_KEEP_KERNEL_H
#define REM_KEEP_KERNEL_H

#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "rem_keep_uapi.h"

/**
 * struct keep_range - the range, once
 * @lock: serializes changes of @held and the moves of pages that they stand for
 * @held: a bit for each page that is offline and ours
 * @shared: a bit for each page that a checkpoint refers to
 * @pinned: a bit for each page that a save refers to
 */
struct keep_range {
	phys_addr_t start;
	u64 bytes;
	u32 pages;
	int node;
	struct mutex lock; /* changes of held, shared and pinned */
	unsigned long *held;
	unsigned long *shared;
	unsigned long *pinned;
};

struct task_struct;

extern struct keep_range keep;

int keep_range_add(u64 start, u64 bytes);
struct page *keep_page(u32 frame);
bool keep_frame_of(struct page *page, u32 *frame);
struct task_struct *keep_task_of(u32 number);
bool keep_is_held(u32 first, u32 pages);
int keep_free(u32 first, u32 pages);
long keep_take(struct rem_keep_take __user *argument);
long keep_share(struct rem_keep_list __user *argument);
long keep_unshare(struct rem_keep_list __user *argument);
long keep_put(struct rem_keep_put __user *argument);
long keep_pin(struct rem_keep_pin __user *argument);
long keep_unpin(void);

#endif /* REM_KEEP_KERNEL_H */
