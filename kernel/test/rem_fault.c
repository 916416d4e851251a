// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of a kernel, for experiments: a name that is written to the parameter `fault` makes one.
 *
 *   lock    a thread has taken the lock of all network devices and never gives it back
 *   loop    a thread polls for an answer that does not come, and leaves its CPU to nobody
 *   list    a store that went astray: the list of protocols leads nowhere
 *   driver  the driver of /dev/rem_fault forgets to begin again after an error: no read succeeds
 *
 * rem_fault_mended.c is a newer driver, without the last one.
 */
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/sock.h>

#ifdef REM_FAULT_MENDED
static const bool rem_begins_again = true;
#else
static const bool rem_begins_again;
#endif

static bool rem_is_stopped; /* the device, after an error */
static bool rem_has_list;   /* rem_proto is among the kernel's protocols */
static DECLARE_COMPLETION(rem_never);

static struct proto rem_proto = {
	.name = "REM_FAULT",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct sock),
};

static int rem_hold_lock(void *unused)
{
	rtnl_lock();
	wait_for_completion(&rem_never);
	rtnl_unlock();
	return 0;
}

static int rem_loop(void *unused)
{
	preempt_disable();
	while (!READ_ONCE(rem_never.done))
		cpu_relax();
	preempt_enable();
	return 0;
}

/* On the last CPU, so that a machine of two goes on with the other. */
static int rem_start_loop(void)
{
	struct task_struct *task = kthread_create(rem_loop, NULL, "rem-loop");

	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, num_online_cpus() - 1);
	wake_up_process(task);
	return 0;
}

static int rem_start_lock(void)
{
	return PTR_ERR_OR_ZERO(kthread_run(rem_hold_lock, NULL, "rem-lock"));
}

static int rem_spoil_list(void)
{
	int error = rem_has_list ? -EBUSY : proto_register(&rem_proto, 0);

	if (error)
		return error;
	rem_has_list = true;
	/* The next of the list's elements is where nothing is mapped. */
	WRITE_ONCE(rem_proto.node.next, LIST_POISON1);
	return 0;
}

static int rem_stop_device(void)
{
	rem_is_stopped = !rem_begins_again;
	return 0;
}

static const struct {
	const char *name;
	int (*make)(void);
} rem_faults[] = {
	{ "lock", rem_start_lock },
	{ "loop", rem_start_loop },
	{ "list", rem_spoil_list },
	{ "driver", rem_stop_device },
};

static int rem_fault_set(const char *name, const struct kernel_param *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(rem_faults); i++)
		if (sysfs_streq(name, rem_faults[i].name))
			return rem_faults[i].make();
	return -EINVAL;
}

static const struct kernel_param_ops rem_fault_ops = {
	.set = rem_fault_set,
};
module_param_cb(fault, &rem_fault_ops, NULL, 0200);
MODULE_PARM_DESC(fault, "a name makes this fault");

static ssize_t rem_read(struct file *file, char __user *to, size_t count,
			loff_t *at)
{
	static const char well[] = "well\n";

	if (rem_is_stopped)
		return -EIO;
	return simple_read_from_buffer(to, count, at, well, strlen(well));
}

static const struct file_operations rem_fops = {
	.owner = THIS_MODULE,
	.read = rem_read,
};

static struct miscdevice rem_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rem_fault",
	.fops = &rem_fops,
};

static int __init rem_fault_init(void)
{
	return misc_register(&rem_device);
}

/* It is never unloaded: what it has made has no end. */
module_init(rem_fault_init);
MODULE_DESCRIPTION("Faults of a kernel, for experiments of Remanence");
MODULE_LICENSE("GPL");
