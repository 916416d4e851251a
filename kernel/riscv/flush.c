// SPDX-License-Identifier: GPL-2.0-only
/*
 * The write-back of caches. The instruction set has none for a whole cache: CBO.FLUSH
 * (Zicbom) takes an address, and acts on all caches of the machine. Some makers have
 * added one: th.dcache.ciall and th.l2cache.ciall (XTheadCmo) write back all that a
 * hart's caches hold, as WBINVD does, and th.sync.s (XTheadSync) waits for that. Without
 * it what is dirty is not known, so Stop goes through all memory, of which each hart
 * takes a share. How long that takes depends on the machine, so it has to be told if it
 * is to be within the hold-up of a supply (budget.c).
 *
 * A hart may have dirtied lines of another's share. So there no hart begins before all
 * have saved what they save; what they store after that is on dead stacks, or flushed
 * line by line by the boot CPU.
 */
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/ioport.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/of.h>
#include <linux/smp.h>
#include <asm/cacheflush.h>
#include <asm/cpufeature.h>
#include "../hooks/hart_leaves.h"
#include "../stop/stop.h"

static const char *const rem_whole_extensions[] = {
	"xtheadcmo",
	"xtheadsync",
};

/* th.dcache.ciall, th.l2cache.ciall, th.sync.s: the assembler may not know them. */
#define REM_DCACHE_CIALL ".4byte 0x0030000b"
#define REM_L2CACHE_CIALL ".4byte 0x0170000b"
#define REM_SYNC ".4byte 0x0190000b"

#define REM_RAM_MAX 32

/* Whether all harts can write back a whole cache. */
static bool rem_caches_whole __ro_after_init;

/**
 * struct rem_ram - the memory that the kernel has mapped
 * @count: its parts
 * @more: there are more than these
 * @begin: of each, in the kernel's addresses
 * @end: of each
 */
static struct {
	unsigned int count;
	bool more;
	unsigned long begin[REM_RAM_MAX];
	unsigned long end[REM_RAM_MAX];
} rem_ram __ro_after_init;

/* Harts that have saved their contexts, in a line of its own. */
static atomic_t rem_caches_ready ____cacheline_aligned;

static int __init rem_ram_add(unsigned long pfn, unsigned long pages, void *unused)
{
	if (rem_ram.count == REM_RAM_MAX) {
		rem_ram.more = true;
		return 1;
	}
	rem_ram.begin[rem_ram.count] = (unsigned long)pfn_to_kaddr(pfn);
	rem_ram.end[rem_ram.count] =
		rem_ram.begin[rem_ram.count] + pages * PAGE_SIZE;
	rem_ram.count++;
	return 0;
}

/* Linux does not know the extensions, so firmware's word is taken. */
static int __init rem_caches_find(void)
{
	struct device_node *node;
	unsigned int i;

	rem_caches_whole = true;
	for_each_of_cpu_node(node)
		for (i = 0; i < ARRAY_SIZE(rem_whole_extensions); i++)
			if (of_property_match_string(node,
						     "riscv,isa-extensions",
						     rem_whole_extensions[i]) < 0)
				rem_caches_whole = false;
	walk_system_ram_range(0, max_pfn, NULL, rem_ram_add);
	return 0;
}
arch_initcall(rem_caches_find);

/** rem_caches_refused - Return: why caches cannot be written back, or NULL. */
const char *rem_caches_refused(void)
{
	if (!riscv_isa_extension_available(NULL, ZICBOM) ||
	    !riscv_cbom_block_size)
		return "a hart has no instructions to write back caches (Zicbom)";
	if (!rem_caches_whole && rem_ram.more)
		return "memory has too many parts";
	return NULL;
}

/** rem_caches_by_lines - Return: whether Stop goes through memory. Context: any. */
bool rem_caches_by_lines(void)
{
	return !rem_caches_whole;
}

/** rem_caches_settled - the next Stop begins from nothing. Context: one hart runs. */
void rem_caches_settled(void)
{
	atomic_set(&rem_caches_ready, 0);
}

static void rem_lines_flush(unsigned long begin, unsigned long end)
{
	unsigned long block = riscv_cbom_block_size;
	unsigned long line = begin & ~(block - 1);

	for (; line < end; line += block)
		asm volatile(".insn i 0x0f, 2, x0, %0, 2" /* cbo.flush */
			     : : "r"(line) : "memory");
}

/**
 * rem_lines_write_back - write the lines of a range to memory, and wait for that
 * @addr: its first byte
 * @bytes: its size
 *
 * Context: any.
 */
void rem_lines_write_back(const void *addr, size_t bytes)
{
	/* What was stored before, first. */
	mb();
	rem_lines_flush((unsigned long)addr, (unsigned long)addr + bytes);
	/* They are on media before what comes after. */
	mb();
}

/* The place of this hart among those that are online. */
static unsigned int rem_hart_rank(void)
{
	unsigned int cpu, rank = 0;

	for_each_online_cpu(cpu) {
		if (cpu == smp_processor_id())
			break;
		rank++;
	}
	return rank;
}

/* A share of a part of memory. */
static void rem_range_flush(unsigned long begin, unsigned long end,
			    unsigned int rank, unsigned int harts)
{
	unsigned long share = (end - begin) / harts;

	begin += share * rank;
	if (rank < harts - 1)
		end = begin + share;
	rem_lines_flush(begin, end);
}

static void rem_share_flush(void)
{
	unsigned int harts = num_online_cpus(), rank = rem_hart_rank();
	unsigned int i;

	atomic_inc(&rem_caches_ready);
	while (atomic_read(&rem_caches_ready) < harts)
		cpu_relax();
	for (i = 0; i < rem_ram.count; i++)
		rem_range_flush(rem_ram.begin[i], rem_ram.end[i], rank, harts);
}

static void rem_whole_write_back(void)
{
	/* What leaves the first caches has arrived before the second is swept. */
	asm volatile(REM_DCACHE_CIALL "\n\t" REM_SYNC "\n\t"
		     REM_L2CACHE_CIALL "\n\t" REM_SYNC
		     :
		     :
		     : "memory");
}

/**
 * rem_hart_leaves - write back what only this hart's caches may hold
 *
 * A Stop does it for harts that are online. Where caches are written back line by line
 * that needs no help: the instruction acts on those of all harts.
 *
 * Context: a hart that goes offline, interrupts off.
 */
void rem_hart_leaves(void)
{
	if (!rem_caches_whole)
		return;
	/* What was stored before, first. */
	mb();
	rem_whole_write_back();
	/* It is on media before another hart hears that this one is gone. */
	mb();
}

/**
 * rem_caches_write_back - write this hart's part of what is dirty to memory
 *
 * Context: Stop, all online harts call it, interrupts off.
 */
void rem_caches_write_back(void)
{
	/* What was stored before, first. */
	mb();
	if (rem_caches_whole)
		rem_whole_write_back();
	else
		rem_share_flush();
	/* It is on media before what comes after. */
	mb();
}
