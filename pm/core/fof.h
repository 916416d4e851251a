/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Flush on fail: whether stores may stay in the caches, because the platform saves
 * these when the power fails. That may end at any moment, and begin again. What was
 * left in the caches until then is written back once, by the first who needs it; from
 * then on each store is written back as elsewhere.
 *
 * Who stores asks before (pm_fof_kept()), and again behind its stores: if the answer
 * has changed, it writes these back itself. Who acknowledges asks, too; if the answer
 * is no, it settles before, unless pm_fof_settled().
 */
#ifndef PM_FOF_H
#define PM_FOF_H

#include "env.h"

/**
 * struct pm_fof - what is in the caches by the platform's promise
 * @promised: whether caches are saved now
 * @write_back: all that is in any cache; it returns when media has it
 * @unsettled: something may have been left there
 * @settling: it is being written back
 */
struct pm_fof {
	bool (*promised)(void);
	void (*write_back)(void);
	bool unsettled;
	bool settling;
};

/* Whether a store may stay in the caches. */
bool pm_fof_kept(struct pm_fof *fof);
/* Whether nothing is there that nobody has written back. */
bool pm_fof_settled(const struct pm_fof *fof);
/* Write it back. One caller at a time; others wait for it. */
void pm_fof_settle(struct pm_fof *fof);

#endif /* PM_FOF_H */
