// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: Stop-and-Go
 *
 * power.c hears that PWR_OK dropped and calls rem_stop_begin(). A Stop is then
 * carried out by one of two paths (dpm.c; fast.c), both of which end in
 * rem_record_commit() (record.c). After Go they call rem_went(), bring devices
 * and CPUs back (resume/), and end with rem_stop_end().
 *
 * State: REM_OFF until a loader's block is found; REM_ARMED while a Stop may
 * begin; REM_STOPPING from the first to the last instruction of Stop and Go;
 * REM_REFUSED with a reason where no Stop is promised. Only cmpxchg() from
 * REM_ARMED begins a Stop, so that one asked for twice, during boot, or during
 * another, begins once. A drop of PWR_OK that comes meanwhile stays pending as
 * a level, and rem_stop_end() looks at it.
 */
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/freezer.h>
#include <linux/init.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/memblock.h>
#include <linux/moduleparam.h>
#include <linux/panic.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/swait.h>
#include <linux/remanence/rem_handover.h>
#include <linux/remanence/rem_reason_name.h>
#include <asm/setup.h>
#include <asm/tsc.h>
#include "../resume/resume.h"
#include "mutant.h"
#include "stop.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

struct rem_machine rem = { .stop_mode = REM_MODE_FAST };

/* How often a Stop that was refused is tried again while power is failing. */
#define REM_STOP_TRIES_MAX 3

static DECLARE_SWAIT_QUEUE_HEAD(rem_thread_wait);
static DECLARE_WAIT_QUEUE_HEAD(rem_ended_wait);
static unsigned int rem_ended;
static unsigned int rem_tries;
static bool rem_thread_asked;

static int rem_stop_param(const char *value, const struct kernel_param *kp)
{
	if (sysfs_streq(value, "dpm"))
		rem.stop_mode = REM_MODE_DPM;
	else if (sysfs_streq(value, "fast"))
		rem.stop_mode = REM_MODE_FAST;
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops rem_stop_ops = { .set = rem_stop_param };
module_param_cb(stop, &rem_stop_ops, NULL, 0);
MODULE_PARM_DESC(stop, "how to stop: fast (default) or dpm");

/**
 * rem_handover_parse - take the loader's word on where the record block is
 * @phys: of the payload of the setup_data node
 * @bytes: of the payload
 *
 * Context: early boot, one CPU. Return: nothing; a node that makes no sense
 * leaves the machine as it would be without.
 */
void __init rem_handover_parse(u64 phys, u32 bytes)
{
	struct rem_handover *handover;

	if (bytes < sizeof(*handover))
		return;
	handover = early_memremap(phys, sizeof(*handover));
	if (!handover)
		return;
	if (handover->magic == REM_HANDOVER_MAGIC &&
	    handover->version == REM_VERSION &&
	    IS_ALIGNED(handover->region_phys, REM_BLOCK_ALIGN_BYTES) &&
	    handover->region_bytes > REM_BLOCK_BYTES) {
		rem.region_phys = handover->region_phys;
		rem.region_bytes = handover->region_bytes;
		/* Where the map calls all of the region RAM, the block is not. */
		memblock_reserve(rem.region_phys, REM_BLOCK_BYTES);
	}
	early_memunmap(handover, sizeof(*handover));
}

/**
 * rem_stop_begin - begin a Stop, if one may begin
 * @reason: enum rem_stop_reason
 *
 * Context: any. Return: whether a Stop began with this call.
 */
bool rem_stop_begin(u32 reason)
{
	unsigned long flags;
	bool began;

	/*
	 * One piece from the checks to the queueing: a hotplug step that begins
	 * later queues behind it, and nobody is preempted while he keeps the
	 * Stop of a power failure out.
	 */
	local_irq_save(flags);
	began = atomic_read(&panic_cpu) == PANIC_CPU_INVALID &&
		!rem_hotplug_busy() && rem_budget_fits() &&
		cmpxchg(&rem.state, REM_ARMED, REM_STOPPING) == REM_ARMED;
	if (began) {
		rem.stop_begin_tsc = rdtsc_ordered();
		rem.stop_reason = reason;
		rem.running_mode = READ_ONCE(rem.stop_mode);
		rem_timeline_begin_stop();
		rem_event(REM_EVENT_STOP_BEGIN, reason);
		if (rem.running_mode == REM_MODE_FAST)
			rem_stop_fast();
		else
			rem_thread_wake();
	}
	local_irq_restore(flags);
	return began;
}

/**
 * rem_stop_planned - suspend to memory that keeps its content without power
 * @ret_err: set to 0 after Go, or to why no Stop took place
 *
 * Called where suspend to memory was asked for. The same Stop as for a power
 * failure; after it the machine may be switched off.
 *
 * Context: process, may sleep. Return: whether this machine stops that way.
 */
bool rem_stop_planned(int *ret_err)
{
	unsigned int before = READ_ONCE(rem_ended);

	if (READ_ONCE(rem.state) == REM_OFF)
		return false;
	if (!rem_stop_begin(REM_STOP_PLANNED)) {
		*ret_err = -EBUSY;
		return true;
	}
	/* Freezable: on the slow path this task is frozen like any other. A
	 * signal does not undo what has begun.
	 */
	*ret_err = wait_event_freezable(rem_ended_wait,
					READ_ONCE(rem_ended) != before) ?
		   0 : READ_ONCE(rem.last_error);
	return true;
}

/** rem_thread_wake - let the thread do what may sleep; Context: any. */
void rem_thread_wake(void)
{
	WRITE_ONCE(rem_thread_asked, true);
	swake_up_one(&rem_thread_wait);
}

/**
 * rem_went - first thing after a context is back: note that this is Go
 *
 * Context: boot CPU, interrupts off. Return: nothing.
 */
void rem_went(void)
{
	rem.resumes++;
	rem_timeline_begin_go(rem.sequence);
	rem_event(REM_EVENT_GO_BEGIN, 0);
}

/**
 * rem_stop_end - Go has ended, or a Stop was given up
 * @err: 0 after Go
 *
 * Arms again. Where PWR_OK dropped meanwhile, Stop runs again (invariant 9).
 *
 * Context: process. Return: nothing.
 */
void rem_stop_end(int err)
{
	int prepared;

	rem.last_error = err;
	rem_tries = err ? rem_tries + 1 : 0;
	if (err)
		rem_event(REM_EVENT_STOP_FAILED, -err);
	else
		rem_record_account();

	prepared = rem_record_prepare();
	if (prepared) {
		rem.why = "no valid machine description, or no sequence number left";
		WRITE_ONCE(rem.state, REM_REFUSED);
		return;
	}
	if (!err)
		rem_event(REM_EVENT_GO_DONE, 0);
	/* Pairs with cmpxchg() in rem_stop_begin(): the record is prepared. */
	smp_store_release(&rem.state, REM_ARMED);
}

/* Context: rem_thread only, so that the next Stop's end comes after this one's. */
static int rem_thread_once(void)
{
	bool fast = rem.running_mode == REM_MODE_FAST;
	int err = fast ? rem_fast_error() : rem_stop_dpm();

	rem_stop_end(err);
	rem_logs_go();
	/* Armed before the level is looked at; a drop in between is seen by
	 * one or the other.
	 */
	smp_mb();
	if (!rem_power_ok() && rem_tries < REM_STOP_TRIES_MAX)
		rem_stop_begin(REM_STOP_POWER);
	if (fast)
		rem_fast_finish();
	return err;
}

static int rem_thread(void *data)
{
	int err;

	for (;;) {
		swait_event_idle_exclusive(rem_thread_wait,
					   READ_ONCE(rem_thread_asked));
		WRITE_ONCE(rem_thread_asked, false);
		err = rem_thread_once();
		rem_mutant_speak();
		WRITE_ONCE(rem_ended, rem_ended + 1);
		wake_up_all(&rem_ended_wait);
		if (err)
			pr_err("remanence: Stop was given up: %pe\n",
			       ERR_PTR(err));
	}
	return 0;
}

static void rem_cpu_prepare_ipi(void *unused)
{
	rem_context_prepare();
	rem_apic_prepare();
}

/* A machine with a device that the bounded path cannot restart stops slowly. */
static void __init rem_mode_choose(void)
{
	const char *blocker = NULL;
	int err;

	if (rem.stop_mode != REM_MODE_FAST)
		return;
	rem_devices_watch();
	err = rem_devices_prepare(&blocker);
	if (!err)
		return;
	pr_warn("remanence: %s keeps the machine on stop=dpm: %pe\n", blocker,
		ERR_PTR(err));
	rem.blocker = blocker;
	rem.stop_mode = REM_MODE_DPM;
}

static int __init rem_prepare(void)
{
	struct task_struct *thread;
	int err;

	err = rem_pagetable_prepare();
	if (!err)
		err = rem_trampoline_prepare();
	if (!err)
		err = rem_record_prepare();
	if (err)
		return err;
	on_each_cpu(rem_cpu_prepare_ipi, NULL, 1);
	rem_iommu_prepare();
	rem_timekeeping_prepare();
	/* Drivers that probe on their own are to be seen as they will be. */
	wait_for_device_probe();
	rem_disks_prepare();
	rem_mode_choose();

	err = rem_hotplug_init();
	if (err)
		return err;
	thread = kthread_run(rem_thread, NULL, "rem_stop");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	sched_set_fifo(thread);
	return 0;
}

/* Invariant 5: say what a Stop takes and what the supply promises. */
static void __init rem_init_tell(void)
{
	u64 bound_ns = rem_budget_bound_ns();
	u64 hold_up_ns = rem_budget_hold_up_ns();

	pr_info("remanence: armed, last boot: %s\n",
		rem_reason_name(rem_record_note()->reason));
	if (rem.stop_mode != REM_MODE_FAST)
		pr_info("remanence: stop=dpm has no bound\n");
	else if (!hold_up_ns)
		pr_info("remanence: Stop takes at most %llu us; the supply's hold-up is not known\n",
			bound_ns / NSEC_PER_USEC);
	else if (bound_ns > hold_up_ns)
		pr_warn("remanence: Stop takes up to %llu us, the supply holds %llu us: no Stop will be tried\n",
			bound_ns / NSEC_PER_USEC, hold_up_ns / NSEC_PER_USEC);
	else
		pr_info("remanence: Stop takes at most %llu us, the supply holds %llu us\n",
			bound_ns / NSEC_PER_USEC, hold_up_ns / NSEC_PER_USEC);
}

static int __init rem_refuse(const char *why, int err)
{
	rem.why = why;
	WRITE_ONCE(rem.state, REM_REFUSED);
	pr_err("remanence: not armed: %s: %pe\n", why, ERR_PTR(err));
	return rem_sysfs_init();
}

static int __init rem_init(void)
{
	int err;

	if (!rem.region_bytes)
		return rem_sysfs_init();
	err = rem_record_open(rem.region_phys, rem.region_bytes);
	if (!err && rem_memory_volatile())
		return rem_refuse("main memory is not all non-volatile",
				  -EOPNOTSUPP);
	if (!err)
		err = rem_prepare();
	if (err)
		return rem_refuse("the record block cannot be used", err);
	/* Pairs with cmpxchg() in rem_stop_begin(): all is prepared. */
	smp_store_release(&rem.state, REM_ARMED);
	err = rem_power_init();
	if (err)
		pr_warn("remanence: no power monitor: %pe\n", ERR_PTR(err));
	rem_init_tell();
	return rem_sysfs_init();
}
late_initcall_sync(rem_init);
