// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which pages are used most. A scan looks at each page-table entry of an anonymous page
 * and takes its accessed bit, which the processor sets; a page remembers what its last
 * sixteen scans have seen, and its heat is in how many of them it was used (0 to 16).
 *
 * In a whole period a busy program uses nearly all of its pages, and they look alike. So
 * when too many do for the frames, a scan takes all accessed bits first, waits for a part of
 * the period, and looks which are set again: of a page that is used more often, more often.
 *
 * Each scan counts how many pages have which heat. The next one moves up what is as hot
 * as the level at which the hot pages fill the frames, and moves down what is less than
 * half as hot, when frames are short: a move reads and writes a whole page, so pages that
 * are nearly alike do not take turns. So the level follows the programs and the size of
 * DRAM. Pages of files, which are used by read() and by mappings, are looked at in the
 * same scan (files.c), and so are those of the kernel's text (text.c).
 *
 * Page tables and struct pages are in NVRAM, too: of a page there that was not used since
 * the last scan only its entry is read, and it ages when it is used again.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmalloc.h>

#include "mixed.h"

#define HEAT_MIN 2 /* of a page that moves up: one use may be its last */
#define LOOK_US_MIN 100u
/* Frames that a scan keeps free, so that what has become hot finds one: 1/32. */
#define SPARE_SHIFT 5

/*
 * Of each page by its number: the scan that saw it last, and its accessed bits until then.
 * Of one that has begun in DRAM, as long as it is new: how many scans it has seen, + 1.
 */
struct heat {
	u16 scan;
	u16 used;
	u16 age;
};

static struct heat *heats;
static unsigned long heats_count;
static u16 scan;
static bool looks = true;
static unsigned int counts[REM_HEAT_MAX + 1];
static unsigned int level = HEAT_MIN;
/* The same of the levels of DRAM (levels.c), each with the faster ones. */
static unsigned int heat_of_level[REM_LEVELS_MAX];

/*
 * Uses are looked at for the period divided by two to this. A page at the level tells most
 * if it is used in about a third of these times; when they have another length, it takes
 * some scans until heat follows.
 */
#define NARROW_MAX 5
#define NARROW_SCANS (REM_HEAT_MAX / 4)
static unsigned int narrow, narrow_scans;

/*
 * What new pages need: frames that such have which are not older than REM_HEAT_MAX scans, and
 * those that have found no room since the last scan; the most of each of the last scans.
 * Programs that live for a moment come again, and pages that live longer would have all
 * frames when they do. So some are kept for new ones: choose_level().
 */
static atomic_t new_count = ATOMIC_INIT(0), missed_count = ATOMIC_INIT(0);
static unsigned int needed, needs[REM_HEAT_MAX], reserve;

/*
 * Pages that this scan has found hot and without a frame, and those of the last scan. So
 * many frames the next one looks for, and new pages that have all that is kept for them
 * leave them to these.
 */
static unsigned int denied, wanted;

/* New pages that this scan has seen, and those of them that were used. */
static unsigned int new_seen, new_used;

/* Of one page table. */
struct table {
	DECLARE_BITMAP(up, REM_MOVE_MAX);
	DECLARE_BITMAP(down, REM_MOVE_MAX);
	struct mem_cgroup *group; /* of the process, or NULL */
	unsigned long start;
	unsigned long scanned;
	bool files; /* pages of the file may have copies */
	bool empty; /* all of DRAM go down */
	bool down_only; /* none goes up */
	bool up_huge; /* a huge page has room */
	bool decides; /* a rule decides: policy.c */
	bool leave; /* none may be in DRAM */
	bool over; /* some have to leave it: the group has more than it may */
	bool clears; /* accessed bits are taken, and nothing else is done */
	bool took; /* accessed bits of the process */
	bool has_frames; /* the process has pages in DRAM */
};

/**
 * rem_heat_moved - a page has another place
 * @from: where it was
 * @to: where it is
 */
void rem_heat_moved(struct page *from, struct page *to)
{
	unsigned long old = page_to_pfn(from), new = page_to_pfn(to);

	if (old >= heats_count || new >= heats_count)
		return;
	heats[new] = heats[old];
	heats[new].age = 0;
}

static void need(unsigned int pages)
{
	if (pages > READ_ONCE(needed))
		WRITE_ONCE(needed, pages);
}

/**
 * rem_heat_began - a new page begins in DRAM
 * @frame: of which nobody else knows yet
 *
 * It counts for as hot as the level, by uses that are the first to be forgotten: as long as
 * it is used in each scan it stays, else it cools from one scan to the next.
 */
void rem_heat_began(struct page *frame)
{
	unsigned long pfn = page_to_pfn(frame);

	if (pfn >= heats_count)
		return;
	heats[pfn].used = GENMASK(REM_HEAT_MAX - 1, REM_HEAT_MAX - READ_ONCE(level));
	/* Not seen by this scan yet. */
	heats[pfn].scan = READ_ONCE(scan) - 1;
	heats[pfn].age = 1;
	need(atomic_inc_return(&new_count) + atomic_read(&missed_count));
}

/**
 * rem_heat_ended - a frame has no page any more
 * @frame: the frame
 *
 * Context: any.
 */
void rem_heat_ended(struct page *frame)
{
	unsigned long pfn = page_to_pfn(frame);

	if (pfn < heats_count && heats[pfn].age) {
		heats[pfn].age = 0;
		atomic_dec(&new_count);
	}
}

/* Of a page in DRAM that a scan sees, also by another entry: it is new for some only. */
static void grow_older(unsigned long pfn)
{
	struct heat *heat = &heats[pfn];

	if (heat->age && heat->scan != scan && ++heat->age > REM_HEAT_MAX) {
		heat->age = 0;
		atomic_dec(&new_count);
	}
}

/* The most that new pages have needed in so many of the last scans, in each of them. */
static unsigned int needed_in(unsigned int scans)
{
	unsigned int most = 0, i, j, so_many;

	for (i = 0; i < REM_HEAT_MAX; i++) {
		for (j = 0, so_many = 0; j < REM_HEAT_MAX; j++)
			so_many += needs[j] >= needs[i];
		if (so_many >= scans)
			most = max(most, needs[i]);
	}
	return most;
}

/* A page is counted once in each scan, however often it is mapped; new ones are not. */
static unsigned int heat_of(unsigned long pfn, bool young)
{
	struct heat *heat = &heats[pfn];
	u16 scans = scan - heat->scan;

	if (!scans && counts[hweight16(heat->used)] && !heat->age)
		counts[hweight16(heat->used)]--;
	if (scans && heat->age) {
		new_seen++;
		new_used += young;
	}
	heat->used = scans < REM_HEAT_MAX ? heat->used << scans : 0;
	heat->used |= young;
	heat->scan = scan;
	if (!heat->age)
		counts[hweight16(heat->used)]++;
	return hweight16(heat->used);
}

static void look_at(struct table *table, unsigned long addr, unsigned long pfn,
		    bool in_dram, bool young)
{
	unsigned int number = (addr - table->start) >> PAGE_SHIFT;
	unsigned int heat;

	if (pfn >= heats_count)
		return;
	if (table->decides) {
		if (!table->down_only)
			__set_bit(number, table->up);
		return;
	}
	if (in_dram)
		grow_older(pfn);
	heat = heat_of(pfn, young);
	if (!in_dram && heat >= level && !table->down_only)
		__set_bit(number, table->up);
	/* New ones make no room for new ones: most of them end soon. */
	if (in_dram && (table->leave || table->over || (table->down_only ? heat < level :
					 heat < (level + 1) / 2 && !heats[pfn].age)))
		__set_bit(number, table->down);
}

/* Of a page of a file; its accessed bit is set. */
static void look_at_file(struct table *table, struct vm_area_struct *vma,
			 unsigned long addr, pte_t *pte, struct page *page)
{
	if (!ptep_test_and_clear_young(vma, addr, pte))
		return;
	table->took = true;
	folio_mark_accessed(page_folio(page));
	if (!table->clears)
		rem_files_used(page_to_pfn(page));
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
		table->took |= young;
		if (young)
			folio_set_referenced(folio);
		table->scanned++;
		/* It is split when a part of it moves. */
		if (young && folio_test_anon(folio) && !table->clears &&
		    (table->decides ? rem_policy_wants_huge(folio) : table->up_huge))
			for (; addr < end; addr += PAGE_SIZE)
				look_at(table, addr,
					pmd_pfn(*pmd) + ((addr & ~PMD_MASK) >> PAGE_SHIFT),
					false, true);
	}
	spin_unlock(ptl);
	return 1;
}

/* For rules that do not go by heat. Return: whether the TLB has to be flushed. */
static bool mark(struct table *table, struct vm_area_struct *vma,
		 unsigned long addr, pte_t *pte)
{
	pte_t entry = ptep_get(pte);
	unsigned long pfn = pte_pfn(entry);
	struct page *page;
	bool up;

	/* The hand takes its accessed bit. */
	if (rem_frames_has(pfn) && !pte_special(entry)) {
		if (table->leave || table->over)
			__set_bit((addr - table->start) >> PAGE_SHIFT, table->down);
		return false;
	}
	page = vm_normal_page(vma, addr, entry);
	if (!page || pfn >= heats_count)
		return false;
	if (!PageAnon(page)) {
		if (table->files && pte_young(entry))
			look_at_file(table, vma, addr, pte, page);
		return false;
	}
	if (table->down_only)
		return false;
	if (rem_policy_asks(page_folio(page), &up)) {
		if (up)
			__set_bit((addr - table->start) >> PAGE_SHIFT, table->up);
		return false;
	}
	if (!rem_policy_mark(vma, addr, pte, page_folio(page)))
		return false;
	heats[pfn].scan = scan;
	atomic64_inc(&rem_mixed_counts.marked);
	return true;
}

static int look_at_table(pmd_t *pmd, unsigned long addr, unsigned long end,
			 struct mm_walk *walk)
{
	struct vm_area_struct *vma = walk->vma;
	struct table *table = walk->private;
	unsigned long start = addr;
	pte_t *first, *pte;
	bool flush = false;
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
		table->has_frames |= in_dram && !pte_special(entry);
		if (table->decides) {
			flush |= mark(table, vma, addr, pte);
			continue;
		}
		if (!pte_young(entry) && (!in_dram || table->clears))
			continue;
		/* Of pages that are not copies, only anonymous ones are in DRAM. */
		if (in_dram && !pte_special(entry)) {
			young = ptep_test_and_clear_young(vma, addr, pte);
			table->took |= young;
			if (!table->clears)
				look_at(table, addr, pte_pfn(entry), true, young);
			continue;
		}
		page = vm_normal_page(vma, addr, entry);
		if (page && !PageAnon(page) && table->files)
			look_at_file(table, vma, addr, pte, page);
		if (!page || !PageAnon(page) || PageKsm(page))
			continue;
		young = ptep_test_and_clear_young(vma, addr, pte);
		table->took |= young;
		if (young)
			folio_set_referenced(page_folio(page));
		if (!table->clears)
			look_at(table, addr, pte_pfn(entry), false, young);
	}
	if (flush)
		flush_tlb_range(vma, start, end);
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

static unsigned long pressed_count(struct shrinker *it,
				   struct shrink_control *control)
{
	/* Copies of files' pages keep nothing from it. */
	return rem_frames_used() - rem_frames_lent() ?: SHRINK_EMPTY;
}

static unsigned long pressed_scan(struct shrinker *it,
				  struct shrink_control *control)
{
	WRITE_ONCE(pressed_at, jiffies ?: 1);
	return SHRINK_STOP;
}

/** rem_heat_is_pressed - Return: whether reclaim looks for memory */
bool rem_heat_is_pressed(void)
{
	unsigned long at = READ_ONCE(pressed_at);

	return at && time_before(jiffies, at + REM_PRESSED_FOR);
}

static unsigned int free_frames(void)
{
	return rem_frames_count() - rem_frames_used();
}

static unsigned int spare_frames(void)
{
	return max(rem_frames_count() >> SPARE_SHIFT, 1u);
}

/* Frames that are free, or soon, or that new pages have. */
static unsigned int frames_for_new(void)
{
	return free_frames() + rem_map_resting() + atomic_read(&new_count);
}

/* Whether there are fewer frames for new pages than are kept for them, and some more. */
static bool are_less(unsigned int more)
{
	if (rem_policy_decides())
		return rem_policy_is_short();
	return frames_for_new() < READ_ONCE(reserve) + spare_frames() + more;
}

/* What is cold has to go, so that what has become hot finds frames beside new pages. */
static bool is_short(void)
{
	return are_less(READ_ONCE(wanted));
}

/* The same for what is of a control group, or NULL. */
static bool is_short_for(struct mem_cgroup *group)
{
	return is_short() || rem_group_is_short(group);
}

/* Free frames that pages may have which have become hot. */
static unsigned int free_for_hot(void)
{
	unsigned int frames = frames_for_new(), kept = READ_ONCE(reserve);

	if (rem_policy_decides())
		return rem_policy_room();
	return frames > kept ? min(frames - kept, free_frames()) : 0;
}

/**
 * rem_heat_find_room - whether new pages may have frames
 * @pages: how many; if more than one, then those of a huge page that may be used
 *
 * Context: any.
 * Return: whether so many frames are free. If not, scans are told.
 */
bool rem_heat_find_room(unsigned int pages)
{
	unsigned int missed, kept = spare_frames();

	if (rem_heat_is_pressed())
		return false;
	if (rem_policy_decides()) {
		if (rem_policy_is_short())
			rem_mixed_wake();
		return rem_policy_has_room(pages);
	}
	if (atomic_read(&new_count) >= READ_ONCE(reserve))
		kept += READ_ONCE(wanted);
	if (free_frames() >= kept + pages)
		return true;
	missed = pages == 1 ? atomic_inc_return(&missed_count) : atomic_read(&missed_count);
	/* A whole huge page is for scans to split when its parts are hot. */
	if (pages > 1 && pages < REM_MOVE_MAX)
		missed += pages;
	need(atomic_read(&new_count) + missed);
	return false;
}

/* Of the pages of a table that are to move down: how many have to. */
static unsigned int to_leave(struct table *table)
{
	return table->over && !table->leave ? rem_group_excess(table->group) : UINT_MAX;
}

static void move_table(struct table *table, struct rem_move *move,
		       struct vm_area_struct *vma)
{
	unsigned int begin, end;

	if (table->down_only || is_short_for(table->group))
		for_each_set_bitrange(begin, end, table->down, REM_MOVE_MAX)
			rem_move_down(move, vma,
				      table->start + begin * PAGE_SIZE,
				      min(end - begin, to_leave(table)));
	for_each_set_bitrange(begin, end, table->up, REM_MOVE_MAX) {
		unsigned int pages = min(end - begin, rem_group_room(table->group));
		unsigned int frames = min(pages, free_for_hot());

		if (frames)
			rem_move_up(move, vma, table->start + begin * PAGE_SIZE, frames);
		denied += pages - frames;
	}
}

static bool is_eligible(struct vm_area_struct *vma)
{
	return !(vma->vm_flags & VM_SPECIAL) && !is_vm_hugetlb_page(vma) &&
	       !vma_is_dax(vma) && !vma_is_temporary_stack(vma) &&
	       (vma->anon_vma || rem_map_may(vma));
}

static bool scan_vma(struct vm_area_struct *vma, struct rem_move *move,
		     struct table *table)
{
	unsigned long addr, end;

	table->leave = table->empty || vma->vm_flags & VM_LOCKED || userfaultfd_armed(vma);
	table->files = rem_map_may(vma);
	for (addr = vma->vm_start; addr < vma->vm_end; addr = end) {
		/* Who maps and unmaps goes first. */
		if (mmap_lock_is_contended(vma->vm_mm))
			return false;
		end = min(pmd_addr_end(addr, vma->vm_end), vma->vm_end);
		table->over = rem_group_excess(table->group);
		table->down_only = table->leave || table->over || rem_heat_is_pressed();
		bitmap_zero(table->up, REM_MOVE_MAX);
		bitmap_zero(table->down, REM_MOVE_MAX);
		table->start = addr;
		table->up_huge = min(free_for_hot(), rem_group_room(table->group)) >=
				 REM_MOVE_MAX;
		walk_page_range(vma->vm_mm, addr, end, &look_ops, table);
		if (!table->clears)
			move_table(table, move, vma);
		cond_resched();
	}
	return true;
}

/* Return: whether it was looked at whole. */
static bool scan_mm(struct mm_struct *mm, struct rem_move *move,
		    struct table *table)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	bool whole = true;

	if (!mmap_read_trylock(mm))
		return false;
	table->group = rem_group_of(mm);
	table->took = false;
	table->has_frames = false;
	for_each_vma(vmi, vma) {
		whole = !is_eligible(vma) || scan_vma(vma, move, table);
		if (!whole)
			break;
	}
	/* Else a TLB hides uses until it needs the entry's place: often beyond many scans. */
	if (table->took)
		flush_tlb_mm(mm);
	rem_group_put(table->group);
	mmap_read_unlock(mm);
	return whole;
}

/*
 * A frame that new pages have needed in so many scans is as hot as a page that was used in
 * as many of these as new pages are.
 */
static unsigned int needed_by_new(unsigned int heat)
{
	unsigned int scans = new_used ? DIV_ROUND_UP(heat * new_seen, new_used) : REM_HEAT_MAX;

	return needed_in(min(scans, REM_HEAT_MAX));
}

/* Pages of the fastest level have to differ. */
static void choose_narrow(void)
{
	unsigned int was = narrow, heat = heat_of_level[0];

	if (++narrow_scans < NARROW_SCANS)
		return;
	if (heat > REM_HEAT_MAX * 3 / 4 && narrow < NARROW_MAX)
		narrow++;
	else if (heat <= REM_HEAT_MAX / 4 && narrow)
		narrow--;
	if (narrow != was)
		narrow_scans = 0;
}

/* The lowest heat of which all pages, and all that are hotter, have room. */
static unsigned int lowest_heat(unsigned int room)
{
	unsigned int heat = REM_HEAT_MAX + 1, hot = 0;

	while (heat > HEAT_MIN &&
	       hot + counts[heat - 1] + needed_by_new(heat - 1) <= room)
		hot += counts[--heat];
	/* If the hottest are too many, as many of them as have room. */
	return min(heat, REM_HEAT_MAX);
}

static void choose_level(void)
{
	unsigned int room = rem_frames_count(), i;

	if (rem_policy_decides()) {
		WRITE_ONCE(level, HEAT_MIN);
		WRITE_ONCE(reserve, 0);
		narrow = 0;
		return;
	}
	WRITE_ONCE(wanted, denied);
	needs[scan % REM_HEAT_MAX] = min(READ_ONCE(needed), room);
	atomic_set(&missed_count, 0);
	WRITE_ONCE(needed, atomic_read(&new_count));
	for (i = 0; i < rem_levels_count(); i++)
		WRITE_ONCE(heat_of_level[i], lowest_heat(rem_level_end(i)));
	WRITE_ONCE(level, heat_of_level[rem_levels_count() - 1]);
	WRITE_ONCE(reserve, needed_by_new(level));
	choose_narrow();
}

/* All that idle ones have in DRAM is cold. */
static enum rem_idle idle_ones_now(struct table *table, bool all)
{
	if (all)
		return REM_IDLE_ALL;
	return !table->clears && (rem_heat_is_pressed() || are_less(0)) ? REM_IDLE_WITH_FRAMES :
									  REM_IDLE_NONE;
}

static void scan_processes(struct table *table, struct rem_move *move, bool all)
{
	struct rem_process_turn turn = { .scan = scan, .is_first = !narrow || !looks };
	struct mm_struct *mm;

	while ((mm = rem_process_next(&turn, idle_ones_now(table, all)))) {
		if (scan_mm(mm, move, table))
			rem_process_note(&turn, table->has_frames);
		mmput(mm);
		cond_resched();
	}
}

/* From now on uses are seen. */
static void begin_to_look(struct table *table, unsigned int us)
{
	table->clears = true;
	scan_processes(table, NULL, false);
	table->clears = false;
	rem_text_forget();
	WRITE_ONCE(looks, true);
	usleep_range(us, us + us / 8);
}

/** rem_heat_looks - Return: whether uses of pages of files count now. Context: any. */
bool rem_heat_looks(void)
{
	return READ_ONCE(looks);
}

/**
 * rem_heat_scan - look at all processes, and move pages
 * @move: room for the moves
 * @empty: all pages of DRAM go home, and none comes
 * @period_us: since the last one, in microseconds
 *
 * Context: a thread of its own.
 */
void rem_heat_scan(struct rem_move *move, bool empty, unsigned int period_us)
{
	struct table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	bool all = empty || rem_group_was_lowered(), copies;

	if (!table)
		return;
	table->empty = empty;
	table->decides = rem_policy_decides();
	memset(counts, 0, sizeof(counts));
	denied = 0;
	new_seen = 0;
	new_used = 0;
	if (narrow && !empty && !table->decides)
		begin_to_look(table, max(period_us >> narrow, LOOK_US_MIN));
	scan++;
	scan_processes(table, move, all);
	copies = !empty && rem_policy_copies();
	rem_text_scan(!copies || table->decides);
	rem_files_scan(!copies);
	choose_level();
	if (!empty && !table->decides)
		rem_levels_sort();
	WRITE_ONCE(looks, !narrow);
	atomic64_add(table->scanned, &rem_mixed_counts.scanned);
	atomic64_inc(&rem_mixed_counts.scans);
	kfree(table);
}

/** rem_heat_reserve - Return: how many frames are kept for new pages. */
unsigned int rem_heat_reserve(void)
{
	return READ_ONCE(reserve);
}

/** rem_heat_level - Return: the heat from which on pages move up. */
unsigned int rem_heat_level(void)
{
	return READ_ONCE(level);
}

/** rem_heat_of_level - Return: the heat from which on pages come to a level of DRAM. */
unsigned int rem_heat_of_level(unsigned int number)
{
	return READ_ONCE(heat_of_level[number]);
}

/** rem_heat_now - Return: the heat of a page, seen by the last scan or not. Context: a scan. */
unsigned int rem_heat_now(unsigned long pfn)
{
	u16 scans;

	if (pfn >= heats_count)
		return 0;
	scans = scan - heats[pfn].scan;
	return scans < REM_HEAT_MAX ? hweight16((u16)(heats[pfn].used << scans)) : 0;
}

/** rem_heat_is_new - Return: whether a page has begun in DRAM not long ago */
bool rem_heat_is_new(unsigned long pfn)
{
	return pfn < heats_count && heats[pfn].age;
}

/**
 * rem_heat_is_hot - a page of a file was used since the last scan
 * @pfn: its number; it is in NVRAM
 *
 * Context: a scan, once for each page.
 * Return: whether DRAM shall have it.
 */
bool rem_heat_is_hot(unsigned long pfn)
{
	if (rem_policy_decides())
		return rem_policy_wants_file(pfn);
	if (heat_of(pfn, true) < level)
		return false;
	if (free_for_hot())
		return true;
	denied++;
	return false;
}

/**
 * rem_heat_is_cold - look at a page of a file that DRAM has
 * @pfn: its number
 * @was_used: since the last scan
 * @number: of its frame, in use
 *
 * Context: the same.
 * Return: whether others shall have its frame.
 */
bool rem_heat_is_cold(unsigned long pfn, bool was_used, unsigned int number)
{
	struct mem_cgroup *group;
	bool is_over, is_needed;

	rcu_read_lock();
	group = rem_frame_group(number);
	is_over = rem_group_excess(group);
	is_needed = is_short_for(group);
	rcu_read_unlock();
	/* With rules that mark pages the hand chooses. */
	return is_over ||
	       (!rem_policy_decides() && heat_of(pfn, was_used) < (level + 1) / 2 && is_needed);
}

/** rem_heat_is_this_scan - Return: whether the last scan has marked a page */
bool rem_heat_is_this_scan(unsigned long pfn)
{
	return pfn < heats_count && heats[pfn].scan == READ_ONCE(scan);
}

/** rem_heat_is_short - Return: whether new pages need frames that less hot ones have */
bool rem_heat_is_short(void)
{
	return frames_for_new() < READ_ONCE(reserve);
}

/** rem_heat_is_low - Return: whether a page that DRAM has would not move up now */
bool rem_heat_is_low(unsigned long pfn)
{
	return pfn < heats_count && hweight16(heats[pfn].used) < level;
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
