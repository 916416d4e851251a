/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pminit: for the modules of pm, which find it at run time and do without it on
 * other kernels.
 */
#ifndef PMINIT_H
#define PMINIT_H

#include <linux/types.h>

struct notifier_block;

/*
 * Where the region is in the kernel's address space, at each boot. It is the
 * entry of the top page table between those of cpu_entry_area and of espfix,
 * which nothing uses, with 4 and with 5 levels of page tables, and which is
 * behind all that is moved about at random (vaddr_end in arch/x86/mm/kaslr.c).
 */
#define PMINIT_ADDRESS 0xfffffe8000000000UL
#define PMINIT_BYTES_MAX 0x8000000000UL

/**
 * struct pminit_region - what pm= put aside
 * @phys: where it begins
 * @bytes: whole, in units of 2 MiB: as large as it was asked to be, as the
 *	region on it says it is, or as somebody wished, whichever is the most
 * @asked_bytes: what pm= says; a region that is made new has that size
 * @limit_bytes: to which it could grow
 * @address: PMINIT_ADDRESS; reading only
 */
struct pminit_region {
	phys_addr_t phys;
	u64 bytes;
	u64 asked_bytes;
	u64 limit_bytes;
	void *address;
};

const struct pminit_region *pminit_region(void);
bool pminit_flush_on_fail(void);
int pminit_watch(struct notifier_block *nb);
void pminit_unwatch(struct notifier_block *nb);

#endif /* PMINIT_H */
