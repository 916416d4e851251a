// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks that programs take on a block segment, for what is more than one
 * transaction. They hold each other off, nobody else: a transaction needs none.
 *
 * Fairness: first come, first served. All who hold or want the lock are in one queue
 * in the order of their coming; the first has it, and readers that follow readers who
 * have it. So a writer that waits holds later readers back, and nobody starves.
 */
#include <linux/list.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "pmbc_lock.h"

/**
 * pmbc_lock_init() - a lock that nobody holds
 * @lock: the lock
 */
void pmbc_lock_init(struct pmbc_lock *lock)
{
	spin_lock_init(&lock->guard);
	INIT_LIST_HEAD(&lock->queue);
	init_waitqueue_head(&lock->changed);
}

/* Under the guard, after each change of the queue. */
static void grant(struct pmbc_lock *lock)
{
	bool shared = true; /* so far */
	struct pmbc_turn *turn;

	list_for_each_entry(turn, &lock->queue, list) {
		bool first = list_is_first(&turn->list, &lock->queue);

		if (!first && (!shared || turn->exclusive))
			break;
		shared = !turn->exclusive;
		WRITE_ONCE(turn->granted, true);
	}
	wake_up_all(&lock->changed);
}

/**
 * pmbc_unlock() - leave the queue, whether the lock was had or waited for
 * @lock: the lock
 * @turn: the caller's
 */
void pmbc_unlock(struct pmbc_lock *lock, struct pmbc_turn *turn)
{
	spin_lock(&lock->guard);
	list_del(&turn->list);
	turn->granted = false;
	grant(lock);
	spin_unlock(&lock->guard);
}

/**
 * pmbc_lock() - have the lock
 * @lock: the lock
 * @turn: the caller's, in no queue
 * @exclusive: alone, or beside others
 * @wait: else it is had at once or not at all
 *
 * Context: may sleep. Return: 0, -EAGAIN, -ERESTARTSYS.
 */
int pmbc_lock(struct pmbc_lock *lock, struct pmbc_turn *turn, bool exclusive,
	      bool wait)
{
	int err = 0;

	turn->exclusive = exclusive;
	turn->granted = false;
	spin_lock(&lock->guard);
	list_add_tail(&turn->list, &lock->queue);
	grant(lock);
	spin_unlock(&lock->guard);
	if (wait)
		err = wait_event_interruptible(lock->changed,
					       READ_ONCE(turn->granted));
	else if (!READ_ONCE(turn->granted))
		err = -EAGAIN;
	if (err)
		pmbc_unlock(lock, turn);
	return err;
}
