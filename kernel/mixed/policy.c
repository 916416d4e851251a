// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rules by which pages come to DRAM and leave it. Which of them is in force can be changed
 * at any time (dram/policy): frames, homes and the bound on what may differ from them are
 * the same for all, so none can lose a page.
 *
 *   heat	scans count uses (heat.c); the default
 *   data	the same for programs' own pages alone: those of files and the kernel's text stay in
 *		NVRAM, as core-memory-age's section 4 has it of pages that are mostly read
 *   numa	Linux' tiering of memory, as kernel/sched/fair.c and mm/vmscan.c have it: a page
 *		that is used within a scan's time after it was marked comes up, and as long
 *		as much of DRAM is free, any that is used
 *   nomad	as Nomad does (Xiang et al., OSDI 2024): a page that is used after it was
 *		marked comes up if it is on the kernel's list of active pages, or in one of
 *		the two youngest generations where the kernel has these (MGLRU); else the
 *		use brings it nearer to that
 *   damon	what the kernel's monitor of accesses finds hot comes up (damon.c)
 *
 * `numa' and `nomad' are told of a use by a fault. Each scan marks the anonymous pages that
 * programs have mapped in NVRAM: their entries are as those of mprotect(PROT_NONE), and
 * the first use is a fault, which makes the entry what it was, and asks the rule. The page
 * moves at once. Pages of files are told of by their accessed bits, and by read(), as for
 * `heat'. `damon' marks nothing: scans ask it of each page.
 *
 * What leaves DRAM for these is chosen as Linux' reclaim does, by two marks of a page
 * (active, and used since it was looked at last), when less than a part of DRAM is free, or
 * a page that shall come up finds no room, until more is free. Its lists are a hand here that
 * goes round all frames: a list would be lines of NVRAM to write. Nomad's shadow of a page is
 * our home: whatever the rule, a page that is as its home moves down without a copy.
 */
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/rmap.h>
#include <linux/string.h>
#include <linux/swap.h>
#include <linux/sysfs.h>
#include <linux/userfaultfd_k.h>
#include <asm/tlbflush.h>

#include "mixed.h"

/*
 * Watermarks in sixty-fourths of the frames. A page of its own begins above LEAST; below
 * LOW the hand begins; pages come up above HIGH, as balanced zones have it; the hand ends
 * at the one that Linux has for promotion. Above MUCH any page that is used comes up:
 * pgdat_free_space_enough().
 */
#define MARKS 64
#define LEAST 1
#define LOW 2
#define HIGH 3
#define PROMOTION 4
#define MUCH (HIGH + MARKS / 16)

/* So that each page in use is looked at twice, and once more after it has become inactive. */
#define TURNS 3

/**
 * struct rule - one of dram/policy
 * @name: as administrators know it
 * @wants: whether DRAM shall have a page of NVRAM that a fault has told of, and that was
 *	marked in the same scan, or not; NULL: heat.c decides
 * @wants_file: the same of a page of a file that was used since the last scan
 * @asks: no page is marked, and scans ask @wants of each
 * @leaves_read: pages that are not programs' own get no copies
 * @begin: before it is in force, if it needs that, with the period of scans in
 *	microseconds. Return: 0 or a negative errno.
 * @end: after it was
 */
struct rule {
	const char *name;
	bool (*wants)(struct folio *folio, bool at_once);
	bool (*wants_file)(struct folio *folio);
	bool asks;
	bool leaves_read;
	int (*begin)(unsigned int period_us);
	void (*end)(void);
};

static unsigned int mark_of(unsigned int parts)
{
	return max(rem_frames_count() * parts / MARKS, parts);
}

static unsigned int free_frames(void)
{
	return rem_frames_count() - rem_frames_used();
}

static bool numa_wants(struct folio *folio, bool at_once)
{
	return at_once || free_frames() > mark_of(MUCH);
}

static bool numa_wants_file(struct folio *folio)
{
	return true;
}

/* A page in a generation is on no list of active pages. */
static bool is_active(struct folio *folio)
{
	bool active = folio_test_active(folio);
#ifdef CONFIG_LRU_GEN
	int generation = folio_lru_gen(folio);

	rcu_read_lock();
	if (generation >= 0)
		active = lru_gen_is_active(folio_lruvec(folio), generation);
	rcu_read_unlock();
#endif
	return active;
}

static bool nomad_wants(struct folio *folio, bool at_once)
{
	if (is_active(folio))
		return true;
	folio_mark_accessed(folio);
	return false;
}

static bool nomad_wants_file(struct folio *folio)
{
	return is_active(folio);
}

#ifdef CONFIG_DAMON_PADDR
static bool damon_wants(struct folio *folio, bool at_once)
{
	return rem_damon_is_hot(folio_pfn(folio));
}

static bool damon_wants_file(struct folio *folio)
{
	return damon_wants(folio, true);
}
#endif

static const struct rule rules[] = {
	{ "heat" },
	{ "data", .leaves_read = true },
	{ "numa", numa_wants, numa_wants_file },
	{ "nomad", nomad_wants, nomad_wants_file },
#ifdef CONFIG_DAMON_PADDR
	{ "damon", damon_wants, damon_wants_file, .asks = true,
	  .begin = rem_damon_begin, .end = rem_damon_end },
#endif
};

static const struct rule *rule = &rules[0];
static DEFINE_MUTEX(set_lock);
/* The next frame that the hand looks at. */
static unsigned int hand;
/* Frames that a page waits for which shall come up, and has found no room. */
static unsigned int needed;

/** rem_policy_decides - Return: whether a rule decides, and not how hot scans find a page */
bool rem_policy_decides(void)
{
	return READ_ONCE(rule)->wants;
}

/** rem_policy_copies - Return: whether pages of files, and of the kernel's text, have copies */
bool rem_policy_copies(void)
{
	return !READ_ONCE(rule)->leaves_read;
}

static int change(const struct rule *to, unsigned int period_us)
{
	const struct rule *was = rule;
	int err = to->begin && was != to ? to->begin(period_us) : 0;

	if (err)
		return err;
	WRITE_ONCE(rule, to);
	if (was->end && was != to)
		was->end();
	return 0;
}

/**
 * rem_policy_set - choose the rule
 * @name: its name, perhaps with a newline
 * @period_us: between two scans, in microseconds
 *
 * Pages that are marked stay so until their next use.
 *
 * Return: 0, -EINVAL if there is no such rule, or why it cannot begin.
 */
int rem_policy_set(const char *name, unsigned int period_us)
{
	unsigned int i;
	int err = -EINVAL;

	mutex_lock(&set_lock);
	for (i = 0; i < ARRAY_SIZE(rules); i++)
		if (sysfs_streq(name, rules[i].name))
			err = change(&rules[i], period_us);
	mutex_unlock(&set_lock);
	return err;
}

/** rem_policy_show - all rules, the one in force in brackets. Return: number of bytes. */
ssize_t rem_policy_show(char *buf)
{
	const struct rule *now = READ_ONCE(rule);
	ssize_t at = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++)
		at += sysfs_emit_at(buf, at, now == &rules[i] ? "%s[%s]" : "%s%s",
				    i ? " " : "", rules[i].name);
	return at + sysfs_emit_at(buf, at, "\n");
}

/** rem_policy_is_short - Return: whether pages have to leave DRAM. */
bool rem_policy_is_short(void)
{
	return free_frames() < mark_of(LOW);
}

/** rem_policy_room - Return: how many pages may come up. */
unsigned int rem_policy_room(void)
{
	unsigned int frames = free_frames(), kept = mark_of(HIGH);

	return frames > kept ? frames - kept : 0;
}

/** rem_policy_quota - Return: for how many pages that come up there is room, or will be soon. */
unsigned int rem_policy_quota(void)
{
	return max(rem_policy_room(), mark_of(PROMOTION) - mark_of(HIGH));
}

/* Without room the hand makes some, as migrate_misplaced_folio_prepare() wakes reclaim. */
static bool finds_room(void)
{
	if (rem_policy_room())
		return true;
	if (!READ_ONCE(needed))
		WRITE_ONCE(needed, 1);
	rem_mixed_wake();
	return false;
}

/** rem_policy_has_room - Return: whether so many new pages may begin in DRAM. */
bool rem_policy_has_room(unsigned int pages)
{
	return free_frames() >= pages + mark_of(LEAST);
}

/**
 * rem_policy_wants_huge - a huge page was used since the last scan
 * @folio: in NVRAM, anonymous
 *
 * All of it moves at once. If it has no room yet, the hand makes some.
 *
 * Context: the thread.
 * Return: whether DRAM shall have it.
 */
bool rem_policy_wants_huge(struct folio *folio)
{
	const struct rule *now = READ_ONCE(rule);

	if (!now->wants || !now->wants(folio, true))
		return false;
	if (rem_policy_room() >= REM_MOVE_MAX)
		return true;
	if (rem_frames_count() / 2 >= REM_MOVE_MAX)
		WRITE_ONCE(needed, REM_MOVE_MAX);
	return false;
}

/**
 * rem_policy_wants_file - a page of a file was used since the last scan
 * @pfn: its number; its folio is locked
 *
 * Return: whether DRAM shall have a copy.
 */
bool rem_policy_wants_file(unsigned long pfn)
{
	const struct rule *now = READ_ONCE(rule);

	return now->wants_file && now->wants_file(page_folio(pfn_to_page(pfn))) &&
	       finds_room();
}

/**
 * rem_policy_asks - whether a scan moves a page up, and marks none
 * @folio: in NVRAM, anonymous
 * @ret_up: whether DRAM shall have it
 *
 * Return: whether the rule has no marks.
 */
bool rem_policy_asks(struct folio *folio, bool *ret_up)
{
	const struct rule *now = READ_ONCE(rule);

	*ret_up = now->asks && now->wants(folio, true) && finds_room();
	return now->asks;
}

/* As change_pte_range() for NUMA's hints: who has pinned it, or shares it, keeps it. */
static bool may_mark(struct folio *folio)
{
	return !folio_test_ksm(folio) && !folio_test_large(folio) &&
	       !folio_is_zone_device(folio) && !folio_maybe_dma_pinned(folio) &&
	       !folio_likely_mapped_shared(folio);
}

/**
 * rem_policy_mark - the next use of a page of NVRAM shall be a fault
 * @vma: where it is mapped
 * @addr: the address there
 * @pte: the entry, locked; the caller flushes the TLB
 * @folio: anonymous
 *
 * Return: whether it was marked, and was not yet.
 */
bool rem_policy_mark(struct vm_area_struct *vma, unsigned long addr, pte_t *pte,
		     struct folio *folio)
{
	pte_t old;

	if (rem_mixed_is_marked(ptep_get(pte)) || !may_mark(folio) ||
	    !vma_is_accessible(vma))
		return false;
	old = ptep_modify_prot_start(vma, addr, pte);
	ptep_modify_prot_commit(vma, addr, pte, old, pte_modify(old, PAGE_NONE));
	return true;
}

/* What the entry was before it was marked; the caller has its lock. */
static void unmark(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	pte_t old = ptep_modify_prot_start(vma, vmf->address, vmf->pte), entry;

	entry = pte_mkyoung(pte_modify(old, vma->vm_page_prot));
	/* A page that is not its process' own has to be asked for: rem_mixed_may_write(). */
	if ((vma->vm_flags & (VM_WRITE | VM_SHARED)) == VM_WRITE &&
	    can_change_pte_writable(vma, vmf->address, entry))
		entry = pte_mkwrite(entry, vma);
	ptep_modify_prot_commit(vma, vmf->address, vmf->pte, old, entry);
	update_mmu_cache_range(vmf, vma, vmf->address, vmf->pte, 1);
}

static bool wants(struct folio *folio, struct mm_struct *mm)
{
	const struct rule *now = READ_ONCE(rule);

	return now->wants && folio && folio_test_anon(folio) &&
	       !folio_is_zone_device(folio) && rem_new_is_allowed() &&
	       !rem_heat_is_pressed() && rem_group_has_room(mm, 1) &&
	       now->wants(folio, rem_heat_is_this_scan(folio_pfn(folio))) &&
	       finds_room();
}

/**
 * rem_mixed_marked - the fault of a page that was marked
 * @vmf: the fault; the entry is not locked
 *
 * Return: as handle_pte_fault().
 */
vm_fault_t rem_mixed_marked(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	bool comes;

	spin_lock(vmf->ptl);
	if (!pte_same(ptep_get(vmf->pte), vmf->orig_pte)) {
		pte_unmap_unlock(vmf->pte, vmf->ptl);
		return 0;
	}
	comes = !(vma->vm_flags & VM_LOCKED) && !userfaultfd_armed(vma) &&
		wants(vm_normal_folio(vma, vmf->address, vmf->orig_pte), vma->vm_mm);
	/* To move a page needs the lock of all mappings. */
	if (comes && vmf->flags & FAULT_FLAG_VMA_LOCK) {
		pte_unmap_unlock(vmf->pte, vmf->ptl);
		vma_end_read(vma);
		return VM_FAULT_RETRY;
	}
	unmark(vmf);
	pte_unmap_unlock(vmf->pte, vmf->ptl);
	atomic64_inc(&rem_mixed_counts.mark_faults);
	if (comes)
		rem_move_up_one(vma, vmf->address & PAGE_MASK);
	return 0;
}

static bool take_young(struct folio *folio, struct vm_area_struct *vma,
		       unsigned long address, void *arg)
{
	DEFINE_FOLIO_VMA_WALK(walk, folio, vma, address, 0);
	bool *used = arg;

	/* Without a flush of the TLB, as others do: it is a hint. */
	while (page_vma_mapped_walk(&walk))
		*used |= ptep_clear_young_notify(vma, walk.address, walk.pte);
	return true;
}

/* Whether a page of DRAM was used since this was asked last; the caller has a reference. */
static bool was_used(struct page *frame, bool is_lent)
{
	struct folio *folio = page_folio(frame);
	bool used = false;
	struct rmap_walk_control walk = { .rmap_one = take_young, .arg = &used };

	if (is_lent)
		return folio_test_clear_referenced(folio);
	if (!folio_trylock(folio))
		return true;
	if (folio_test_anon(folio) && folio_mapped(folio))
		rmap_walk(folio, &walk);
	folio_unlock(folio);
	return used;
}

/* A page of DRAM, as reclaim looks at one of its lists. */
static void look_at(unsigned int number)
{
	struct page *frame = rem_frame_of(number);
	struct folio *folio = page_folio(frame);
	bool is_lent, leaves = false;

	if (!get_page_unless_zero(frame))
		return;
	is_lent = rem_frame_is_lent(number);
	if (was_used(frame, is_lent))
		folio_set_active(folio);
	else if (folio_test_active(folio))
		folio_clear_active(folio);
	else
		leaves = true;
	put_page(frame);
	if (!leaves)
		return;
	if (is_lent)
		rem_files_leave(number);
	else
		rem_move_down_one(frame);
}

/**
 * rem_policy_make_room - pages leave DRAM if too little of it is free, or NVRAM is looked for
 *
 * Context: the thread.
 * Return: whether enough of it is free.
 */
bool rem_policy_make_room(void)
{
	unsigned int left = TURNS * rem_frames_count(), goal = mark_of(PROMOTION);
	unsigned int waiting = READ_ONCE(needed);
	bool all = rem_heat_is_pressed();

	if (!rem_policy_decides() || (!all && !waiting && !rem_policy_is_short()))
		return true;
	if (waiting)
		goal = max(goal, mark_of(HIGH) + waiting);
	WRITE_ONCE(needed, 0);
	if (all)
		left = rem_frames_count();
	while (left-- && (all || free_frames() + rem_map_resting() < goal)) {
		look_at(hand);
		hand = (hand + 1) % rem_frames_count();
		cond_resched();
	}
	rem_map_flush();
	return !rem_policy_is_short();
}
