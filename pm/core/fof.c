// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "fof.h"

#ifdef __KERNEL__
#include <linux/atomic.h>
/* What is read behind it is newer. */
#define is_set(flag) smp_load_acquire(&(flag))
/* All that is done behind it comes later, reads too. */
#define set(flag, value) smp_store_mb(flag, value)
#else
#define is_set(flag) __atomic_load_n(&(flag), __ATOMIC_SEQ_CST)
#define set(flag, value) __atomic_store_n(&(flag), value, __ATOMIC_SEQ_CST)
#endif

/*
 * A caller's stores before this are covered by a yes: a promise that ends later is
 * settled later, and that begins with @unsettled being false.
 */
bool pm_fof_kept(struct pm_fof *fof)
{
	if (!fof->promised())
		return false;
	if (!is_set(fof->unsettled))
		set(fof->unsettled, true);
	return true;
}

/* In this order: pm_fof_settle() changes them in the other. */
bool pm_fof_settled(const struct pm_fof *fof)
{
	return !is_set(fof->unsettled) && !is_set(fof->settling);
}

void pm_fof_settle(struct pm_fof *fof)
{
	if (!is_set(fof->unsettled))
		return;
	set(fof->settling, true);
	/* Before: what is left there from here on is another's to settle. */
	set(fof->unsettled, false);
	fof->write_back();
	set(fof->settling, false);
}
