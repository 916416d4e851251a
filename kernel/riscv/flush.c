// SPDX-License-Identifier: GPL-2.0-only
/*
 * The write-back of caches. The instruction set has none for a whole cache: CBO.FLUSH
 * (Zicbom) takes an address, and acts on all caches of the machine. Some makers have
 * added one: th.dcache.ciall and th.l2cache.ciall (XTheadCmo) write back all that a
 * hart's caches hold, as WBINVD does. Without it what is dirty is not known, so Stop goes
 * through all NVRAM, of which each hart takes a share.
 *
 * A hart may have dirtied lines of another's share. So there no hart begins before all
 * have saved what they save; what they store after that is on dead stacks, or flushed
 * line by line by the boot CPU.
 */
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/of.h>
#include <linux/remanence/rem_judge.h>
#include <linux/smp.h>
#include <asm/cacheflush.h>
#include <asm/cpufeature.h>
#include "../hooks/hart_leaves.h"
#include "../stop/stop.h"

#define REM_WHOLE_EXTENSION "xtheadcmo"

/* th.dcache.ciall, th.l2cache.ciall: the assembler may not know them. */
#define REM_DCACHE_CIALL ".4byte 0x0030000b"
#define REM_L2CACHE_CIALL ".4byte 0x0170000b"

/* Whether all harts can write back a whole cache. */
static bool rem_caches_whole __ro_after_init;
/* Harts that have saved their contexts, in a line of its own. */
static atomic_t rem_caches_ready ____cacheline_aligned;

/* Linux does not know the extension, so firmware's word is taken. */
static int __init rem_caches_find(void)
{
	struct device_node *node;

	rem_caches_whole = true;
	for_each_of_cpu_node(node)
		if (of_property_match_string(node, "riscv,isa-extensions",
					     REM_WHOLE_EXTENSION) < 0)
			rem_caches_whole = false;
	return 0;
}
arch_initcall(rem_caches_find);

/** rem_caches_refused - Return: why caches cannot be written back, or NULL. */
const char *rem_caches_refused(void)
{
	if (!riscv_isa_extension_available(NULL, ZICBOM) ||
	    !riscv_cbom_block_size)
		return "a hart has no instructions to write back caches (Zicbom)";
	return NULL;
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

/* A share of a range; its page with the loader's stamp is not the kernel's. */
static void rem_range_flush(u64 base, u64 bytes, unsigned int rank,
			    unsigned int harts)
{
	u64 begin = base == rem.region_phys ? base : base + PAGE_SIZE;
	u64 end = base + bytes;
	u64 share = div_u64(end - begin, harts);

	begin += share * rank;
	if (rank < harts - 1)
		end = begin + share;
	rem_lines_flush((unsigned long)__va(begin), (unsigned long)__va(end));
}

static void rem_share_flush(void)
{
	unsigned int harts = num_online_cpus(), rank = rem_hart_rank();
	const struct rem_desc_entry *entry;
	unsigned int count;

	atomic_inc(&rem_caches_ready);
	while (atomic_read(&rem_caches_ready) < harts)
		cpu_relax();
	entry = rem_record_table(&count);
	for (; count; count--, entry++)
		if (rem_is_nvram(entry))
			rem_range_flush(entry->value[0], entry->value[1], rank,
					harts);
}

static void rem_whole_write_back(void)
{
	asm volatile(REM_DCACHE_CIALL "\n\t" REM_L2CACHE_CIALL
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
