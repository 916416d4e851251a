// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which pages are used most. A scan looks at each page-table entry of an anonymous page
 * and takes its accessed bit, which the processor sets; a page remembers those of its
 * last eight scans, and its heat is how many of them are set (0 to 8).
 *
 * Each scan counts how many pages have which heat. The next one moves up what is as hot
 * as the level at which the hot pages fill the frames, and moves down what is less than
 * half as hot, when frames are short: a move reads and writes a whole page, so pages that
 * are nearly alike do not take turns. So the level follows the programs and the size of
 * DRAM.
 *
 * Page tables and struct pages are in NVRAM, too: of a page there that was not used since
 * the last scan only its entry is read, and it ages when it is used again.
 */
#include <linux/bitmap.h>
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/pagewalk.h>
#include <linux/pgtable.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmalloc.h>

#include "mixed.h"

#define HEAT_MAX 8
#define HEAT_MIN 2 /* of a page that moves up: one use may be its last */
/* Frames that a scan keeps free, so that what has become hot finds one: 1/32. */
#define SPARE_SHIFT 5

/* Of each page by its number: the scan that saw it last, and its accessed bits until then. */
struct heat {
	u16 scan;
	u8 used;
};

static struct heat *heats;
static unsigned long heats_count;
static u16 scan;
static unsigned int counts[HEAT_MAX + 1];
static unsigned int level = HEAT_MIN;

/* Of one page table. */
struct table {
	DECLARE_BITMAP(up, REM_MOVE_MAX);
	DECLARE_BITMAP(down, REM_MOVE_MAX);
	unsigned long start;
	unsigned long scanned;
	bool empty; /* all of DRAM go down */
	bool down_only; /* none goes up */
	bool up_huge; /* a huge page has room */
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
	u16 scans = scan - heat->scan;

	if (!scans && counts[hweight8(heat->used)])
		counts[hweight8(heat->used)]--;
	heat->used = scans < HEAT_MAX ? heat->used << scans : 0;
	heat->used |= young;
	heat->scan = scan;
	counts[hweight8(heat->used)]++;
	return hweight8(heat->used);
}

static void look_at(struct table *table, unsigned long addr, unsigned long pfn,
		    bool in_dram, bool young)
{
	unsigned int number = (addr - table->start) >> PAGE_SHIFT;
	unsigned int heat;

	if (pfn >= heats_count)
		return;
	heat = heat_of(pfn, young);
	if (!in_dram && heat >= level && !table->down_only)
		__set_bit(number, table->up);
	if (in_dram && (table->empty || heat < (table->down_only ? level : (level + 1) / 2)))
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
		table->scanned++;
		/* It is split when a part of it moves. */
		if (young && folio_test_anon(folio) && table->up_huge)
			for (; addr < end; addr += PAGE_SIZE)
				look_at(table, addr,
					pmd_pfn(*pmd) + ((addr & ~PMD_MASK) >> PAGE_SHIFT),
					false, true);
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
	spinlock_t *ptl; /* of the page table */

	if (look_at_huge(table, pmd, addr, end, vma))
		return 0;
	first = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!first)
		return 0;
	for (pte = first; addr < end; pte++, addr += PAGE_SIZE) {
		pte_t entry = ptep_get(pte);
		bool in_dram, young;
		struct page *page;

		if (!pte_present(entry))
			continue;
		table->scanned++;
		in_dram = rem_frames_has(pte_pfn(entry));
		if (!in_dram && !pte_young(entry))
			continue;
		page = vm_normal_page(vma, addr, entry);
		if (!page || !PageAnon(page) || PageKsm(page))
			continue;
		/* Without a flush of the TLB, as others do: it is a hint. */
		young = ptep_test_and_clear_young(vma, addr, pte);
		if (young && !in_dram)
			folio_set_referenced(page_folio(page));
		look_at(table, addr, pte_pfn(entry), in_dram, young);
	}
	pte_unmap_unlock(first, ptl);
	return 0;
}

static const struct mm_walk_ops look_ops = {
	.pmd_entry = look_at_table,
	.walk_lock = PGWALK_RDLOCK,
};

/*
 * Reclaim cannot take pages of DRAM, nor their homes: when it looks for memory, the next
 * scans move down what is not as hot as the level, and nothing up.
 */
static unsigned long pressed_at;
static struct shrinker *shrinker;

#define PRESSED_FOR (10 * HZ)

static unsigned long pressed_count(struct shrinker *it,
				   struct shrink_control *control)
{
	return rem_frames_used() ?: SHRINK_EMPTY;
}

static unsigned long pressed_scan(struct shrinker *it,
				  struct shrink_control *control)
{
	WRITE_ONCE(pressed_at, jiffies ?: 1);
	return SHRINK_STOP;
}

static bool is_pressed(void)
{
	unsigned long at = READ_ONCE(pressed_at);

	return at && time_before(jiffies, at + PRESSED_FOR);
}

static unsigned int free_frames(void)
{
	return rem_frames_count() - rem_frames_used();
}

static bool is_short(void)
{
	return free_frames() < max(rem_frames_count() >> SPARE_SHIFT, 1u);
}

static void move_table(struct table *table, struct rem_move *move,
		       struct vm_area_struct *vma)
{
	unsigned int begin, end;

	if (table->down_only || is_short())
		for_each_set_bitrange(begin, end, table->down, REM_MOVE_MAX)
			rem_move_down(move, vma,
				      table->start + begin * PAGE_SIZE,
				      end - begin);
	for_each_set_bitrange(begin, end, table->up, REM_MOVE_MAX) {
		if (!free_frames())
			return;
		rem_move_up(move, vma, table->start + begin * PAGE_SIZE,
			    end - begin);
	}
}

static bool is_eligible(struct vm_area_struct *vma)
{
	return !(vma->vm_flags & VM_SPECIAL) && !is_vm_hugetlb_page(vma) &&
	       !vma_is_dax(vma) && !vma_is_temporary_stack(vma) &&
	       vma->anon_vma;
}

static bool scan_vma(struct vm_area_struct *vma, struct rem_move *move,
		     struct table *table)
{
	unsigned long addr, end;

	table->down_only = table->empty || is_pressed() ||
			   vma->vm_flags & VM_LOCKED || userfaultfd_armed(vma);
	for (addr = vma->vm_start; addr < vma->vm_end; addr = end) {
		/* Who maps and unmaps goes first. */
		if (mmap_lock_is_contended(vma->vm_mm))
			return false;
		end = min(pmd_addr_end(addr, vma->vm_end), vma->vm_end);
		bitmap_zero(table->up, REM_MOVE_MAX);
		bitmap_zero(table->down, REM_MOVE_MAX);
		table->start = addr;
		table->up_huge = free_frames() >= REM_MOVE_MAX;
		walk_page_range(vma->vm_mm, addr, end, &look_ops, table);
		move_table(table, move, vma);
		cond_resched();
	}
	return true;
}

static void scan_mm(struct mm_struct *mm, struct rem_move *move,
		    struct table *table)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	if (!mmap_read_trylock(mm))
		return;
	for_each_vma(vmi, vma)
		if (is_eligible(vma) && !scan_vma(vma, move, table))
			break;
	mmap_read_unlock(mm);
}

/* The next process, in the order of their numbers. */
static struct mm_struct *next_mm(int *nr)
{
	struct task_struct *task;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	rcu_read_lock();
	while (!mm) {
		pid = find_ge_pid(*nr, &init_pid_ns);
		if (!pid)
			break;
		*nr = pid_nr(pid) + 1;
		task = pid_task(pid, PIDTYPE_TGID);
		/* The first thread may have ended before the others. */
		task = task ? find_lock_task_mm(task) : NULL;
		if (!task)
			continue;
		if (!(task->flags & PF_KTHREAD)) {
			mm = task->mm;
			mmget(mm);
		}
		task_unlock(task);
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
	heats_count = max(max_pfn, rem_frames_end());
	heats = vzalloc(array_size(heats_count, sizeof(*heats)));
	if (!heats)
		return -ENOMEM;
	shrinker = shrinker_alloc(0, "remanence-dram");
	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = pressed_count;
	shrinker->scan_objects = pressed_scan;
	shrinker_register(shrinker);
	return 0;
}
