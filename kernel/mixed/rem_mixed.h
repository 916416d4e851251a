/* SPDX-License-Identifier: GPL-2.0-only */
/* memtype=mixed: what mm/memory.c asks (patch 0023). */
#ifndef _LINUX_REMANENCE_REM_MIXED_H
#define _LINUX_REMANENCE_REM_MIXED_H

#include <linux/jump_label.h>
#include <linux/memremap.h>

#ifdef CONFIG_REMANENCE_MIXED
DECLARE_STATIC_KEY_FALSE(rem_mixed_key);

bool rem_mixed_write(struct folio *folio);

/**
 * rem_mixed_may_write - a program is about to get an anonymous page for itself
 * @folio: locked, mapped once, not yet writable
 *
 * Return: false if it has to get a copy instead: more pages of DRAM may not differ
 * from their homes in NVRAM.
 */
static inline bool rem_mixed_may_write(struct folio *folio)
{
	return !static_branch_unlikely(&rem_mixed_key) ||
	       !folio_is_device_coherent(folio) || rem_mixed_write(folio);
}
#else
static inline bool rem_mixed_may_write(struct folio *folio)
{
	return true;
}
#endif

#endif /* _LINUX_REMANENCE_REM_MIXED_H */
