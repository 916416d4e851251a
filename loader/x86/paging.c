/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Extends the page tables of the entry code. They are in use until the kernel or
 * the image loads its own, so all of NVRAM must be in them.
 */
#include "../hw/paging.h"

#include "../core/interval.h"
#include "../hw/io.h"

#define PRESENT_WRITABLE 0x3u
#define LARGE 0x80u
#define ADDRESS_MASK 0x000ffffffffff000u

#define SHIFT_2M 21
#define SHIFT_1G 30
#define SHIFT_512G 39
#define PAGE_1G (1ull << SHIFT_1G)
#define PAGE_2M (1ull << SHIFT_2M)
#define ADDRESS_END (1ull << 47)

#define TABLES_MAX 64

extern u64 go_pml4[512];

static u64 tables[TABLES_MAX][512] __attribute__((aligned(4096)));
static u32 tables_used;

/* The table that @entry points to; allocates it if there is none. */
static u64 *table_of(u64 *entry)
{
	if (*entry & LARGE)
		return NULL;
	if (!*entry) {
		if (tables_used == TABLES_MAX)
			return NULL;
		*entry = (u64)(uintptr_t)tables[tables_used++] |
			 PRESENT_WRITABLE;
	}
	return at_phys(*entry & ADDRESS_MASK);
}

static bool has_1g_pages(void)
{
	return read_cpuid(0x80000000, 0).eax >= 0x80000001 &&
	       (read_cpuid(0x80000001, 0).edx & 1u << 26);
}

bool paging_map(u64 phys, u64 bytes)
{
	bool use_1g = has_1g_pages();
	u64 end;

	if (!range_valid(phys, bytes) || phys >= ADDRESS_END ||
	    bytes > ADDRESS_END - phys)
		return false;
	end = phys + bytes;
	phys &= ~(PAGE_2M - 1);
	while (phys < end) {
		u64 *pdpt = table_of(&go_pml4[phys >> SHIFT_512G]);
		u64 *slot, *pd;

		if (!pdpt)
			return false;
		slot = &pdpt[phys >> SHIFT_1G & 511];
		if (!*slot && use_1g && !(phys & (PAGE_1G - 1)) &&
		    end - phys >= PAGE_1G)
			*slot = phys | PRESENT_WRITABLE | LARGE;
		if (*slot & LARGE) {
			phys = (phys | (PAGE_1G - 1)) + 1;
			continue;
		}
		pd = table_of(slot);
		if (!pd)
			return false;
		pd[phys >> SHIFT_2M & 511] = phys | PRESENT_WRITABLE | LARGE;
		phys += PAGE_2M;
	}
	return true;
}
