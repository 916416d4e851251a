// SPDX-License-Identifier: GPL-2.0-only
/*
 * Advisory locks of programs on a block segment, for work of more than one
 * transaction. A transaction itself needs none.
 *
 * Locks are granted FIFO. Holders and waiters are in one queue in the order of
 * their requests; the first holds the lock, and so do readers that directly follow
 * readers who hold it. Readers behind a waiting writer wait, so nobody starves. A
 * dead process's request is dropped.
 */
#include <linux/list.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "pmbc_lock.h"

/**
 * pmbc_lock_init() - initialise a free lock
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
 * pmbc_unlock() - leave the queue, whether the lock was acquired or not
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
 * pmbc_lock() - acquire the lock
 * @lock: the lock
 * @turn: the caller's, in no queue
 * @exclusive: alone, or beside others
 * @wait: wait for it; else fail with -EAGAIN
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
