// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which processes a scan looks at (heat.c): those that have run, and of others those that
 * may have what it looks for.
 */
#include <linux/oom.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/vmalloc.h>

#include "mixed.h"

/*
 * The time that a process had run when it was looked at last, scans since it has run, and
 * whether it had no frame then. If two have the same place, both are looked at.
 */
struct seen {
	int nr;
	u16 idle;
	bool without;
	u64 runtime_ns;
};

#define SEEN_COUNT PID_MAX_DEFAULT
static struct seen *seen;

/* Scans after which one without frames is looked at: others may have had a page in common. */
#define WITHOUT_SCANS 64

static struct seen *seen_of(int nr)
{
	return &seen[nr % SEEN_COUNT];
}

/*
 * A process that has not run for so long that none of its pages can be hot: nothing is to
 * find in its page tables, but pages that make room for others.
 */
static bool is_idle(struct task_struct *leader, int nr, bool counts)
{
	struct seen *last = seen_of(nr);
	u64 runtime_ns = leader->signal->sum_sched_runtime;
	struct task_struct *thread;

	for_each_thread(leader, thread)
		runtime_ns += READ_ONCE(thread->se.sum_exec_runtime);
	if (last->nr != nr || last->runtime_ns != runtime_ns)
		*last = (struct seen){ .nr = nr, .runtime_ns = runtime_ns };
	else if (last->idle <= REM_HEAT_MAX && counts)
		last->idle++;
	return last->idle > REM_HEAT_MAX;
}

static bool may_have_frames(int nr, u16 scan)
{
	return !seen_of(nr)->without || !((scan + nr) % WITHOUT_SCANS);
}

static bool is_looked_at(struct task_struct *leader, int nr, const struct rem_process_turn *turn,
			 enum rem_idle idle_ones)
{
	return !is_idle(leader, nr, turn->is_first) || idle_ones == REM_IDLE_ALL ||
	       (idle_ones == REM_IDLE_WITH_FRAMES && may_have_frames(nr, turn->scan));
}

/**
 * rem_process_next - the next process that is to be looked at, in the order of their numbers
 * @turn: through all processes; with @scan and @is_first at its begin
 * @idle_ones: which of those that do not run are looked at, too
 *
 * Return: its memory, for mmput(), or NULL at the end.
 */
struct mm_struct *rem_process_next(struct rem_process_turn *turn, enum rem_idle idle_ones)
{
	struct task_struct *task;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	rcu_read_lock();
	while (!mm) {
		pid = find_ge_pid(turn->nr + 1, &init_pid_ns);
		if (!pid)
			break;
		turn->nr = pid_nr(pid);
		task = pid_task(pid, PIDTYPE_TGID);
		/* The first thread may have ended before the others. */
		task = task ? find_lock_task_mm(task) : NULL;
		if (!task)
			continue;
		if (!(task->flags & PF_KTHREAD) &&
		    is_looked_at(task, turn->nr, turn, idle_ones)) {
			mm = task->mm;
			mmget(mm);
		}
		task_unlock(task);
	}
	rcu_read_unlock();
	return mm;
}

/**
 * rem_process_note - what has been seen of a process
 * @turn: it was the last of rem_process_next(), and was looked at whole
 * @has_frames: it has pages in DRAM
 */
void rem_process_note(const struct rem_process_turn *turn, bool has_frames)
{
	struct seen *last = seen_of(turn->nr);

	if (last->nr == turn->nr)
		last->without = !has_frames && last->idle > REM_HEAT_MAX;
}

/** rem_process_open - Return: 0 or -ENOMEM. */
int __init rem_process_open(void)
{
	seen = vcalloc(SEEN_COUNT, sizeof(*seen));
	return seen ? 0 : -ENOMEM;
}
