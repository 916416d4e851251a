// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether what is in CPU caches when the power fails is safe.
 */
#include <linux/export.h>

#include <asm/e820/api.h>

#include "../stop/stop.h"
#include "pminit.h"

/**
 * pminit_flush_on_fail() - whether a power failure writes the caches back
 *
 * It does where a Stop is armed, is known to end within the hold-up, and the region
 * is in memory that keeps its content without power. The answer may change: who builds on
 * it asks again.
 *
 * Context: any.
 */
bool pminit_flush_on_fail(void)
{
	const struct pminit_region *region = pminit_region();

	return READ_ONCE(rem.state) == REM_ARMED && rem_budget_hold_up_ns() &&
	       rem_budget_fits() && !rem_budget_exceeded() && region &&
	       !e820__mapped_raw_any(region->phys, region->phys + region->bytes,
				     E820_TYPE_RAM);
}
EXPORT_SYMBOL_GPL(pminit_flush_on_fail);
