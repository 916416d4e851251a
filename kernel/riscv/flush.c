// SPDX-License-Identifier: GPL-2.0-only
/*
 * The write-back of caches. The instruction set has none for a whole cache: CBO.FLUSH
 * takes an address, and acts on all caches of the machine. What is dirty is not known,
 * so Stop goes through all NVRAM, of which each hart takes a share.
 *
 * A hart may have dirtied lines of another's share. So no hart begins before all have
 * saved what they save; what they store after that is on dead stacks, or flushed line
 * by line by the boot CPU.
 */
#include <linux/cpumask.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/remanence/rem_judge.h>
#include <linux/smp.h>
#include <asm/cacheflush.h>
#include <asm/cpufeature.h>
#include <asm/insn-def.h>
#include "../stop/stop.h"

/* Harts that have saved their contexts, in a line of its own. */
static atomic_t rem_caches_ready ____cacheline_aligned;

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
	unsigned long line = begin & ~((unsigned long)riscv_cbom_block_size - 1);

	for (; line < end; line += riscv_cbom_block_size)
		asm volatile(CBO_FLUSH(%0) : : "r"(line) : "memory");
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
	mb();
	rem_lines_flush((unsigned long)addr, (unsigned long)addr + bytes);
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

/**
 * rem_caches_write_back - write this hart's share of NVRAM to memory
 *
 * Context: Stop, all online harts call it, interrupts off.
 */
void rem_caches_write_back(void)
{
	unsigned int harts = num_online_cpus(), rank = rem_hart_rank();
	const struct rem_desc_entry *entry;
	unsigned int count;

	atomic_inc(&rem_caches_ready);
	while (atomic_read(&rem_caches_ready) < harts)
		cpu_relax();
	entry = rem_record_table(&count);
	mb();
	for (; count; count--, entry++)
		if (rem_is_nvram(entry))
			rem_range_flush(entry->value[0], entry->value[1], rank,
					harts);
	mb();
}
