// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether what is in CPU caches when the power fails is safe.
 */
#include <linux/export.h>

#include <asm/e820/api.h>

#include "../machine.h"
#include "pminit.h"

/**
 * pminit_flush_on_fail() - whether a power failure writes the caches back
 *
 * It does where the machine promises that (rem_promise()), and the region is in
 * memory that keeps its content without power. The answer may change: who builds on
 * it asks again, and hears of it by pminit_watch().
 *
 * Context: any.
 */
bool pminit_flush_on_fail(void)
{
	const struct pminit_region *region = pminit_region();

	return rem_promise() && region &&
	       !e820__mapped_raw_any(region->phys, region->phys + region->bytes,
				     E820_TYPE_RAM);
}
EXPORT_SYMBOL_GPL(pminit_flush_on_fail);

/**
 * pminit_watch() - hear whenever the answer may have changed
 * @nb: called in process context, some time after the change
 *
 * Return: 0 or a negative errno.
 */
int pminit_watch(struct notifier_block *nb)
{
	return rem_promise_watch(nb);
}
EXPORT_SYMBOL_GPL(pminit_watch);

/**
 * pminit_unwatch() - undo pminit_watch()
 * @nb: what it was given
 */
void pminit_unwatch(struct notifier_block *nb)
{
	rem_promise_unwatch(nb);
}
EXPORT_SYMBOL_GPL(pminit_unwatch);
