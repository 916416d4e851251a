// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which pages are used most. A scan looks at each page-table entry of an anonymous page
 * and takes its accessed bit, which the processor sets; a page remembers those of its
 * last eight scans, and its heat is how many of them are set (0 to 8).
 *
 * Each scan counts how many pages have which heat. The next one moves up what is hotter
 * than the level at which the hot pages fill the frames, and moves down what is colder,
 * when frames are short. So the level follows the programs and the size of DRAM, and
 * there is no number to be tuned.
 */
#include <linux/bitmap.h>
#include <linux/hugetlb.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/pgtable.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmalloc.h>

#include "mixed.h"

#define HEAT_MAX 8
#define HEAT_MIN 2 /* of a page that moves up: one use may be its last */
/* Frames that a scan keeps free, so that what has become hot finds one: 1/32. */
#define SPARE_SHIFT 5

/* Of each page by its number: the scan that saw it last, and its last accessed bits. */
struct heat {
	u8 scan;
	u8 used;
};

static struct heat *heats;
static unsigned long heats_count;
static u8 scan;
static unsigned int counts[HEAT_MAX + 1];
static unsigned int level = HEAT_MIN;

/* Of one page table. */
struct table {
	DECLARE_BITMAP(up, REM_MOVE_MAX);
	DECLARE_BITMAP(down, REM_MOVE_MAX);
	unsigned long start;
	unsigned long scanned;
	bool empty; /* all go down */
};

/**
 * rem_heat_moved - a page has another place
 * @from: where it was
 * @to: where it is
 */
void rem_heat_moved(struct page *from, struct page *to)
{
	unsigned long old = page_to_pfn(from), new = page_to_pfn(to);

	if (old < heats_count && new < heats_count)
		heats[new] = heats[old];
}

/* A page is counted once in each scan, however often it is mapped. */
static unsigned int heat_of(unsigned long pfn, bool young)
{
	struct heat *heat = &heats[pfn];
	unsigned int weight;

	if (heat->scan == scan) {
		heat->used |= young;
		return hweight8(heat->used);
	}
	/* Not seen in the last scan: it is another page by now, or was swapped out. */
	heat->used = heat->scan == (u8)(scan - 1) ? heat->used << 1 : 0;
	heat->used |= young;
	heat->scan = scan;
	weight = hweight8(heat->used);
	counts[weight]++;
	return weight;
}

static void look_at(struct table *table, unsigned long addr, struct page *page,
		    bool young)
{
	unsigned int number = (addr - table->start) >> PAGE_SHIFT;
	bool in_dram = is_device_coherent_page(page);
	unsigned int heat;

	table->scanned++;
	if (page_to_pfn(page) >= heats_count)
		return;
	heat = heat_of(page_to_pfn(page), young);
	if (!in_dram && heat >= level)
		__set_bit(number, table->up);
	if (in_dram && heat < level)
		__set_bit(number, table->down);
}

static int look_at_huge(struct table *table, pmd_t *pmd, unsigned long addr,
			unsigned long end, struct vm_area_struct *vma)
{
	spinlock_t *ptl = pmd_trans_huge_lock(pmd, vma);
	struct folio *folio;
	bool young;

	if (!ptl)
		return 0;
	if (pmd_present(*pmd) && !is_huge_zero_pmd(*pmd)) {
		folio = pmd_folio(*pmd);
		young = pmdp_test_and_clear_young(vma, addr & PMD_MASK, pmd);
		if (young)
			folio_set_referenced(folio);
		if (folio_test_anon(folio))
			for (; addr < end; addr += PAGE_SIZE)
				look_at(table, addr,
					folio_page(folio, (addr & ~PMD_MASK) >> PAGE_SHIFT),
					young);
	}
	spin_unlock(ptl);
	return 1;
}

static int look_at_table(pmd_t *pmd, unsigned long addr, unsigned long end,
			 struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct table *table = walk->private;
	pte_t *first, *pte;
	spinlock_t *ptl;

	if (look_at_huge(table, pmd, addr, end, vma))
		return 0;
	first = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!first)
		return 0;
	for (pte = first; addr < end; pte++, addr += PAGE_SIZE) {
		pte_t entry = ptep_get(pte);
		struct page *page;
		bool young;

		if (!pte_present(entry))
			continue;
		page = vm_normal_page(vma, addr, entry);
		if (!page || !PageAnon(page) || PageKsm(page))
			continue;
		/* Without a flush of the TLB, as others do: it is a hint. */
		young = ptep_test_and_clear_young(vma, addr, pte);
		if (young && !is_device_coherent_page(page))
			folio_set_referenced(page_folio(page));
		look_at(table, addr, page, young);
	}
	pte_unmap_unlock(first, ptl);
	return 0;
}

static const struct mm_walk_ops look_ops = {
	.pmd_entry = look_at_table,
	.walk_lock = PGWALK_RDLOCK,
};

static bool is_short(void)
{
	unsigned int count = rem_frames_count();

	return count - rem_frames_used() < max(count >> SPARE_SHIFT, 1u);
}

static void move_table(struct table *table, struct rem_move *move,
		       struct vm_area_struct *vma)
{
	unsigned int begin, end;

	if (table->empty || is_short())
		for_each_set_bitrange(begin, end, table->down, REM_MOVE_MAX)
			rem_move_down(move, vma,
				      table->start + begin * PAGE_SIZE,
				      end - begin);
	if (table->empty)
		return;
	for_each_set_bitrange(begin, end, table->up, REM_MOVE_MAX) {
		if (rem_frames_used() == rem_frames_count())
			return;
		rem_move_up(move, vma, table->start + begin * PAGE_SIZE,
			    end - begin);
	}
}

static bool is_eligible(struct vm_area_struct *vma)
{
	return !(vma->vm_flags & VM_SPECIAL) && !is_vm_hugetlb_page(vma) &&
	       !vma_is_dax(vma) && !userfaultfd_armed(vma) &&
	       !vma_is_temporary_stack(vma) && vma->anon_vma;
}

static void scan_vma(struct vm_area_struct *vma, struct rem_move *move,
		     struct table *table)
{
	unsigned long addr, end;

	for (addr = vma->vm_start; addr < vma->vm_end; addr = end) {
		end = min(pmd_addr_end(addr, vma->vm_end), vma->vm_end);
		bitmap_zero(table->up, REM_MOVE_MAX);
		bitmap_zero(table->down, REM_MOVE_MAX);
		table->start = addr;
		walk_page_range(vma->vm_mm, addr, end, &look_ops, table);
		move_table(table, move, vma);
		cond_resched();
	}
}

static void scan_mm(struct mm_struct *mm, struct rem_move *move,
		    struct table *table)
{
	struct vm_area_struct *vma;
	VMA_ITERATOR(vmi, mm, 0);

	/* Who maps and unmaps goes first. */
	if (!mmap_read_trylock(mm))
		return;
	for_each_vma(vmi, vma)
		if (is_eligible(vma))
			scan_vma(vma, move, table);
	mmap_read_unlock(mm);
}

/* The next process, in the order of their numbers. */
static struct mm_struct *next_mm(int *nr)
{
	struct task_struct *task = NULL;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	rcu_read_lock();
	while (!mm) {
		pid = find_ge_pid(*nr, &init_pid_ns);
		if (!pid)
			break;
		*nr = pid_nr(pid) + 1;
		task = pid_task(pid, PIDTYPE_TGID);
		if (task && !(task->flags & PF_KTHREAD))
			mm = get_task_mm(task);
	}
	rcu_read_unlock();
	return mm;
}

/* The lowest heat of which all pages, and all that are hotter, have room. */
static void choose_level(void)
{
	unsigned int room = rem_frames_count(), heat = HEAT_MAX + 1, hot = 0;

	while (heat > HEAT_MIN && hot + counts[heat - 1] <= room)
		hot += counts[--heat];
	/* If the hottest are too many, as many of them as have room. */
	level = min(heat, HEAT_MAX);
}

/**
 * rem_heat_scan - look at all processes, and move pages
 * @move: room for the moves
 * @empty: all pages of DRAM go home, and none comes
 *
 * Context: a thread of its own.
 */
void rem_heat_scan(struct rem_move *move, bool empty)
{
	struct table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	struct mm_struct *mm;
	int nr = 1;

	if (!table)
		return;
	table->empty = empty;
	memset(counts, 0, sizeof(counts));
	scan++;
	while ((mm = next_mm(&nr))) {
		scan_mm(mm, move, table);
		mmput(mm);
		cond_resched();
	}
	choose_level();
	atomic64_add(table->scanned, &rem_mixed_counts.scanned);
	atomic64_inc(&rem_mixed_counts.scans);
	kfree(table);
}

/** rem_heat_level - Return: the heat from which on pages move up. */
unsigned int rem_heat_level(void)
{
	return READ_ONCE(level);
}

/**
 * rem_heat_open - memory for the heat of each page
 *
 * Return: 0 or -ENOMEM.
 */
int __init rem_heat_open(void)
{
	/* DRAM is below it: NVRAM ends higher, or its pages are as good as cold. */
	heats_count = max_pfn;
	heats = vzalloc(array_size(heats_count, sizeof(*heats)));
	return heats ? 0 : -ENOMEM;
}
