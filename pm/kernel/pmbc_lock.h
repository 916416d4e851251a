/* SPDX-License-Identifier: GPL-2.0-only */
/* Locks that programs take on a block segment: see pmbc_lock.c. */
#ifndef PMBC_LOCK_H
#define PMBC_LOCK_H

#include <linux/spinlock_types.h>
#include <linux/types.h>
#include <linux/wait.h>

struct pmbc_lock {
	spinlock_t guard; /* of the queue */
	struct list_head queue;
	wait_queue_head_t changed;
};

/* Somebody's place in the queue. */
struct pmbc_turn {
	struct list_head list;
	bool exclusive;
	bool granted;
};

void pmbc_lock_init(struct pmbc_lock *lock);
int pmbc_lock(struct pmbc_lock *lock, struct pmbc_turn *turn, bool exclusive,
	      bool wait);
void pmbc_unlock(struct pmbc_lock *lock, struct pmbc_turn *turn);

#endif /* PMBC_LOCK_H */
