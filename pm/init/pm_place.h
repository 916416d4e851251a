/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pm=SIZE[@ADDRESS]: what the boot stub, which must not put the kernel there,
 * and the kernel proper must agree on. Both have memparse(); everything else
 * here is pure.
 */
#ifndef _ASM_X86_SHARED_PM_PLACE_H
#define _ASM_X86_SHARED_PM_PLACE_H

#include <linux/types.h>

#include <asm/bootparam.h>
#include <asm/e820/types.h>

/* Of everything: what a large page and a subsection of struct pages have. */
#define PM_PLACE_ALIGN 0x200000ULL

/**
 * struct pm_place - where the region is
 * @start: its first byte; the same at each boot with the same map
 * @bytes: the requested size
 * @limit: end of the memory that it may grow into
 */
struct pm_place {
	u64 start;
	u64 bytes;
	u64 limit;
};

/* NVRAM is preferred to RAM, and any of it to none. */
static inline int pm_place_rank(u32 type)
{
	if (type == E820_TYPE_PMEM || type == E820_TYPE_PRAM)
		return 2;
	return type == E820_TYPE_RAM;
}

/**
 * pm_place_find() - where pm= puts the region
 * @value: what follows "pm="
 * @entry: firmware's map
 * @entries: how many it has
 * @ret: filled in
 *
 * With an address the region may grow up to the end of the entry that holds it.
 * Without one it is at the end of the largest address's NVRAM, or else RAM.
 *
 * Return: false if @value makes no sense or there is no such memory.
 */
static inline bool pm_place_find(char *value,
				 const struct boot_e820_entry *entry,
				 u32 entries, struct pm_place *ret)
{
	u64 bytes = memparse(value, &value);
	bool fixed = *value == '@';
	u64 start = fixed ? memparse(value + 1, &value) : 0;
	int best = 0;
	u32 i;

	if (*value || !bytes || (bytes | start) % PM_PLACE_ALIGN)
		return false;
	for (i = 0; i < entries; i++) {
		int rank = pm_place_rank(entry[i].type);
		u64 end = entry[i].addr + entry[i].size;
		u64 limit = end - end % PM_PLACE_ALIGN;

		if (entry[i].size < bytes || limit < bytes || rank < best ||
		    !rank)
			continue;
		if (!fixed)
			start = limit - bytes;
		if (start < entry[i].addr || start + bytes > limit)
			continue;
		if (!fixed && rank == best && ret->limit > limit)
			continue;
		best = rank;
		*ret = (struct pm_place){ start, bytes, limit };
	}
	return best;
}

#endif /* _ASM_X86_SHARED_PM_PLACE_H */
