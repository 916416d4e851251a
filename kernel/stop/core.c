// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: Stop-and-Go
 *
 * When PWR_OK drops, power.c calls rem_stop_begin(). One of two paths (fast.c,
 * dpm.c) then carries out the Stop; both end in rem_record_commit() (record.c).
 * Go (resume/go.c) brings CPUs and devices back, and rem_stop_end() arms the
 * machine again.
 *
 * State: REM_OFF until the loader hands over a record block; REM_ARMED while a
 * Stop may begin; REM_STOPPING from the first to the last instruction of Stop
 * and Go; REM_REFUSED, with a reason, when the machine cannot promise a Stop.
 * Only a cmpxchg() from REM_ARMED begins a Stop, so a second request, or one
 * during boot, begins none. If PWR_OK drops during Stop or Go, it stays pending
 * as a level, which rem_thread_once() checks after it has armed the machine.
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
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/swait.h>
#include <linux/remanence/rem_handover.h>
#include <linux/remanence/rem_poke.h>
#include <linux/remanence/rem_reason_name.h>
#include "../hooks/hooks.h"
#include "stop.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

struct rem_machine rem = { .stop_mode = REM_MODE_FAST };

/* Attempts to Stop while power is failing, before the kernel gives up. */
#define REM_STOP_TRIES_MAX 3

static DECLARE_SWAIT_QUEUE_HEAD(rem_thread_wait);
static DECLARE_WAIT_QUEUE_HEAD(rem_ended_wait);
static unsigned int rem_ended;
static unsigned int rem_tries;
static bool rem_thread_asked;

static const char *const rem_mode_names[] = {
	[REM_MODE_DPM] = "dpm",
	[REM_MODE_FAST] = "fast",
	[REM_MODE_SNG] = "sng",
};

/** rem_mode_name - Return: the name of the mode of the next Stop. Context: any. */
const char *rem_mode_name(void)
{
	return rem_mode_names[READ_ONCE(rem.stop_mode)];
}

static int rem_stop_param(const char *value, const struct kernel_param *kp)
{
	u32 mode;

	for (mode = REM_MODE_DPM; mode < ARRAY_SIZE(rem_mode_names); mode++) {
		if (sysfs_streq(value, rem_mode_names[mode])) {
			rem.stop_mode = mode;
			return 0;
		}
	}
	return -EINVAL;
}

static const struct kernel_param_ops rem_stop_ops = { .set = rem_stop_param };
module_param_cb(stop, &rem_stop_ops, NULL, 0);
MODULE_PARM_DESC(stop, "how to stop: fast (default), dpm or sng");

/**
 * rem_handover_parse - read from the loader where the record block is
 * @phys: physical address of the payload of the setup_data node
 * @bytes: size of the payload
 *
 * An invalid node is ignored.
 *
 * Context: early boot, one CPU.
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
		/* The memory map may list the whole region as RAM. */
		memblock_reserve(rem.region_phys, REM_BLOCK_BYTES);
	}
	early_memunmap(handover, sizeof(*handover));
}

/** rem_mode_loses - Return: whether the next Stop would lose a device. Context: any. */
bool rem_mode_loses(void)
{
	return READ_ONCE(rem.stop_mode) != REM_MODE_FAST && rem.loses[0];
}

/**
 * rem_stop_begin - begin a Stop, if one may begin
 * @reason: enum rem_stop_reason
 *
 * Context: any.
 * Return: whether a Stop began with this call.
 */
bool rem_stop_begin(u32 reason)
{
	unsigned long flags;
	bool began;

	/*
	 * Interrupts stay off from the checks to the queueing: a hotplug step
	 * that begins later is queued behind the Stop, and a task that has just
	 * changed the state is not preempted while a power failure waits.
	 */
	local_irq_save(flags);
	began = atomic_read(&panic_cpu) == PANIC_CPU_INVALID &&
		!rem_hotplug_busy() && rem_budget_fits() && !rem_mode_loses() &&
		cmpxchg(&rem.state, REM_ARMED, REM_STOPPING) == REM_ARMED;
	if (began) {
		rem.stop_begin_tsc = rem_ticks();
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
 * @ret_err: set to 0 after Go, or to a negative errno if there was no Stop
 *
 * This is the same Stop as for a power failure; after it the machine may be
 * switched off.
 *
 * Context: process, may sleep.
 * Return: whether this machine suspends by a Stop.
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
	/*
	 * Freezable: a Stop that suspends devices freezes this task, too. A signal
	 * does not cancel a Stop that has begun.
	 */
	*ret_err = wait_event_freezable(rem_ended_wait,
					READ_ONCE(rem_ended) != before) ?
		   0 : READ_ONCE(rem.last_error);
	return true;
}

/** rem_stop_power_returned - PWR_OK is back: its next drop has all attempts. Context: any. */
void rem_stop_power_returned(void)
{
	WRITE_ONCE(rem_tries, 0);
}

/** rem_thread_sleep - wait for rem_thread_wake(). Context: rem_thread. */
void rem_thread_sleep(void)
{
	swait_event_idle_exclusive(rem_thread_wait,
				   READ_ONCE(rem_thread_asked));
	WRITE_ONCE(rem_thread_asked, false);
}

/** rem_thread_wake - run the part of Stop or Go that may sleep. Context: any. */
void rem_thread_wake(void)
{
	WRITE_ONCE(rem_thread_asked, true);
	swake_up_one(&rem_thread_wait);
}

/*
 * Arms the machine again after Go (@err is 0) or after a Stop that was refused.
 * Not inlined: tests and benchmarks use it as a mark.
 */
static noinline void rem_stop_end(int err)
{
	rem.last_error = err;
	rem_tries = err ? rem_tries + 1 : 0;
	if (err)
		rem_event(REM_EVENT_STOP_FAILED, -err);
	else
		rem_record_account();

	if (rem_record_prepare()) {
		WRITE_ONCE(rem.state, REM_REFUSED);
		rem_promise_update();
		return;
	}
	if (!err)
		rem_event(REM_EVENT_GO_DONE, 0);
	/* Pairs with cmpxchg() in rem_stop_begin(): the record is prepared. */
	smp_store_release(&rem.state, REM_ARMED);
}

/* Context: rem_thread only, so that Stops end one after the other. */
static int rem_thread_once(void)
{
	bool fast = rem.running_mode == REM_MODE_FAST;
	int err = fast ? rem_fast_error() : rem_stop_dpm();

	rem_stop_end(err);
	rem_logs_go();
	/*
	 * Armed before the level of PWR_OK is read: if it drops in between,
	 * either the interrupt begins a Stop or this check does (invariant 9).
	 */
	smp_mb();
	if (!rem_power_ok() && rem_tries < REM_STOP_TRIES_MAX)
		rem_stop_begin(REM_STOP_POWER);
	/* Behind the last attempt: no Stop will begin before PWR_OK is back. */
	rem_promise_update();
	/* After these errors nothing was stopped. */
	if (fast && err != -EOPNOTSUPP && err != -EAGAIN)
		rem_go_finish();
	return err;
}

static int rem_thread(void *data)
{
	int err;

	for (;;) {
		rem_thread_sleep();
		err = rem_thread_once();
		/* The fast path was not the right one any more: now by the other. */
		if (err == -EAGAIN && rem_stop_begin(rem.stop_reason))
			continue;
		WRITE_ONCE(rem_ended, rem_ended + 1);
		wake_up_all(&rem_ended_wait);
		if (err)
			pr_err("remanence: Stop refused: %pe\n",
			       ERR_PTR(err));
		else
			rem_record_report();
	}
	return 0;
}

static void rem_cpu_prepare_ipi(void *unused)
{
	rem_context_prepare();
	rem_go_prepare_cpu();
}

/* Of the mode of the next Stop and its reason. */
static DEFINE_SPINLOCK(rem_mode_lock);

static void rem_mode_block(const char *because, bool stays)
{
	unsigned long flags;

	spin_lock_irqsave(&rem_mode_lock, flags);
	if (!rem.blocked)
		strscpy(rem.blocker, because, sizeof(rem.blocker));
	rem.blocked |= stays;
	WRITE_ONCE(rem.stop_mode, REM_MODE_DPM);
	spin_unlock_irqrestore(&rem_mode_lock, flags);
	rem_promise_update();
}

/**
 * rem_use_dpm - from now on a Stop uses generic power management
 * @because: name of the first device that the fast path cannot restart; copied,
 *	as it may go with its driver
 *
 * Context: any but NMI.
 */
void rem_use_dpm(const char *because)
{
	rem_mode_block(because, true);
}

/**
 * rem_mode_hold - use generic power management until rem_mode_release()
 * @because: as for rem_use_dpm()
 *
 * Context: any but NMI.
 */
void rem_mode_hold(const char *because)
{
	rem_mode_block(because, false);
}

/** rem_mode_release - undo rem_mode_hold(). Context: any but NMI. */
void rem_mode_release(void)
{
	unsigned long flags;

	spin_lock_irqsave(&rem_mode_lock, flags);
	if (!rem.blocked) {
		rem.blocker[0] = '\0';
		WRITE_ONCE(rem.stop_mode, REM_MODE_FAST);
	}
	spin_unlock_irqrestore(&rem_mode_lock, flags);
	rem_promise_update();
}

/**
 * rem_machine_differs - the machine is not what the loader has described
 * @device: name of what differs; "": it is as described
 *
 * Its images would be refused, so nothing is promised; a Stop is tried nevertheless,
 * as the device may be gone, or back, when power returns.
 *
 * Context: process, one at a time.
 */
void rem_machine_differs(const char *device)
{
	if (!strcmp(device, rem.differs))
		return;
	strscpy(rem.differs, device, sizeof(rem.differs));
	rem_promise_update();
	if (device[0])
		pr_warn("remanence: an image would be refused: %s is not as it was at boot\n",
			device);
}

/**
 * rem_machine_loses - a Stop by generic power management would lose a device
 * @device: its name; "": it would lose none
 *
 * Context: process, one at a time.
 */
void rem_machine_loses(const char *device)
{
	if (!strcmp(device, rem.loses))
		return;
	strscpy(rem.loses, device, sizeof(rem.loses));
	if (device[0])
		pr_info("remanence: stop=dpm would lose %s\n", device);
}

/* With a device that the fast path cannot restart, or such firmware: stop=dpm. */
static void __init rem_mode_choose(void)
{
	bool fast = rem.stop_mode == REM_MODE_FAST;
	const char *blocker = NULL;
	int err = fast ? rem_others_prepare(&blocker) : 0;

	if (fast && !err) {
		blocker = rem_firmware_blocker();
		err = blocker ? -EOPNOTSUPP : 0;
	}
	if (err) {
		pr_warn("remanence: using stop=dpm because of %s: %pe\n",
			blocker, ERR_PTR(err));
		rem_use_dpm(blocker);
	}
	rem_devices_prepare(fast);
}

static int __init rem_prepare(void)
{
	struct task_struct *thread;
	int err;

	err = rem_go_prepare();
	if (!err)
		err = rem_record_prepare();
	if (err)
		return err;
	rem_reset_prepare();
	rem_off_prepare();
	rem_quiet_prepare();
	on_each_cpu(rem_cpu_prepare_ipi, NULL, 1);
	rem_timekeeping_prepare();
	/* The list of devices must include those that probe asynchronously. */
	wait_for_device_probe();
	rem_wire_prepare();
	rem_disks_prepare();
	rem_mode_choose();

	err = rem_disks_watch();
	if (!err)
		err = rem_hotplug_init();
	if (err)
		return err;
	thread = kthread_run(rem_thread, NULL, "rem_stop");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	sched_set_fifo(thread);
	return 0;
}

/* Invariant 5: print how long a Stop takes and how long the supply lasts. */
static void rem_init_report(void)
{
	u64 bound_ns = rem_budget_bound_ns();
	u64 hold_up_ns = rem_budget_hold_up_ns();

	pr_info("remanence: armed, last boot: %s\n",
		rem_reason_name(rem_record_note()->reason));
	if (rem.stop_mode != REM_MODE_FAST)
		pr_info("remanence: stop=%s has no bound\n", rem_mode_name());
	else if (!hold_up_ns)
		pr_info("remanence: Stop takes at most %llu us; the supply's hold-up is unknown\n",
			bound_ns / NSEC_PER_USEC);
	else if (rem_budget_is_unknown())
		pr_warn("remanence: Stop goes through all memory, and remanence.flush_us= does not say for how long: no Stop will begin\n");
	else if (bound_ns > hold_up_ns)
		pr_warn("remanence: Stop takes up to %llu us, the supply holds %llu us: no Stop will begin\n",
			bound_ns / NSEC_PER_USEC, hold_up_ns / NSEC_PER_USEC);
	else
		pr_info("remanence: Stop takes at most %llu us, the supply holds %llu us\n",
			bound_ns / NSEC_PER_USEC, hold_up_ns / NSEC_PER_USEC);
}

/* Everything is prepared but what waits until the kernel's text is read-only. */
static bool rem_unsealed;

/**
 * rem_sealed - from now on text and read-only data change by text_poke() only
 *
 * Where images are authenticated the machine is armed here: no program runs before.
 *
 * Context: process, once, after all initcalls.
 */
void rem_sealed(void)
{
	if (!rem_unsealed)
		return;
	rem_unsealed = false;
	rem.why = rem_text_sum_up();
	if (rem.why)
		return;
	/* As in rem_init(). */
	smp_store_release(&rem.state, REM_ARMED);
	/* As in rem_thread_once(): a drop meanwhile began no Stop. */
	smp_mb();
	if (!rem_power_ok())
		rem_stop_begin(REM_STOP_POWER);
	rem_promise_update();
	rem_init_report();
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
	if (!err && !rem_record_described())
		return rem_refuse("no valid machine description", -EBADMSG);
	if (!err && rem_memory_volatile())
		return rem_refuse("main memory is not all non-volatile",
				  -EOPNOTSUPP);
	if (!err)
		err = rem_prepare();
	if (err)
		return rem_refuse(rem.why ?: "the record block cannot be used",
				  err);
	rem_unsealed = rem_text_waits();
	if (rem_unsealed) {
		rem.why = "the kernel's text is not read-only yet";
		WRITE_ONCE(rem.state, REM_REFUSED);
	} else {
		/* Pairs with cmpxchg() in rem_stop_begin(): everything is prepared. */
		smp_store_release(&rem.state, REM_ARMED);
	}
	err = rem_power_init();
	if (err)
		pr_warn("remanence: no power monitor: %pe\n", ERR_PTR(err));
	if (!rem_unsealed)
		rem_init_report();
	return rem_sysfs_init();
}
late_initcall_sync(rem_init);
