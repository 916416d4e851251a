// SPDX-License-Identifier: GPL-2.0-only
/*
 * For tests only: a store of code that has no business with the region. Loading
 * fails with -EFAULT where the store faulted, which is what protection is for, and
 * with -ECANCELED where it was done.
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/uaccess.h>

static ulong address;
module_param(address, ulong, 0);
MODULE_PARM_DESC(address, "where to store, as the kernel sees it");

static bool physical;
module_param(physical, bool, 0);
MODULE_PARM_DESC(physical, "address is a physical one: by the direct mapping");

static int __init pmstray_init(void)
{
	u64 *at = physical ? phys_to_virt(address) : (u64 *)address;
	u64 value = 0x5741525453ULL;

	pagefault_disable();
	__put_kernel_nofault(at, &value, u64, fault);
	pagefault_enable();
	return -ECANCELED;

fault:
	pagefault_enable();
	return -EFAULT;
}

module_init(pmstray_init);
MODULE_DESCRIPTION("Persistent memory: a stray store, for tests");
MODULE_LICENSE("GPL");
