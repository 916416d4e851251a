// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Types of the kernel that lab/lost_lines reads. Compiled with debugging
 * information against the headers of a kernel and never linked: the compiler
 * tells of each type that is named here. The kernel itself has none.
 *
 * slab.h is mm/slab.h of the kernel's source, which headers for modules lack.
 */
#include <linux/fs.h>
#include <linux/dcache.h>
#include <linux/maple_tree.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include "slab.h"

struct rem_layout {
	struct task_struct *task;
	struct page *page;
	struct slab *slab;
	struct kmem_cache *cache;
	struct address_space *mapping;
	struct inode *inode;
	struct dentry *dentry;
	struct super_block *super;
	struct file_system_type *type;
	struct mm_struct *mm;
	struct vm_area_struct *vma;
	struct maple_node *node;
	struct file *file;
	enum pagetype pagetype;
	enum pageflags pageflags;
};

struct rem_layout rem_layout;
