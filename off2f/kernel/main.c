// SPDX-License-Identifier: GPL-2.0-only
/*
 * binfmt_off2f: runs programs of two files. All of a program but its text is
 * loaded by the kernel's own binfmt_elf, out of ABC, whose program headers it
 * understands; so stack, auxiliary vector, vDSO, interpreter, credentials and
 * core dumps are those of ELF. Then the text is mapped out of XYZ over the place
 * that was left for it.
 *
 *   strict   each start takes the SHA-256 of the text
 *   keep     how many texts that nobody executes are held (text.c)
 */
#define pr_fmt(fmt) "binfmt_off2f: " fmt

#include <linux/binfmts.h>
#include <linux/elf.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>

#include "binfmt_off2f.h"

bool off2f_strict;
module_param_named(strict, off2f_strict, bool, 0644);
MODULE_PARM_DESC(strict, "check each byte of a text at each start");

unsigned int off2f_keep = 64;
atomic_long_t off2f_faults;
atomic_long_t off2f_huge_faults;
atomic_long_t off2f_pages;

static int set_keep(const char *text, const struct kernel_param *param)
{
	int err = param_set_uint(text, param);

	if (!err)
		off2f_xyz_forget(off2f_keep);
	return err;
}

static const struct kernel_param_ops keep_ops = {
	.set = set_keep,
	.get = param_get_uint,
};
module_param_cb(keep, &keep_ops, &off2f_keep, 0644);
MODULE_PARM_DESC(keep, "how many texts that nobody executes are held open");

static int get_count(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%ld\n", atomic_long_read(param->arg));
}

static const struct kernel_param_ops count_ops = { .get = get_count };
module_param_cb(faults, &count_ops, &off2f_faults, 0444);
module_param_cb(huge_faults, &count_ops, &off2f_huge_faults, 0444);
module_param_cb(pages, &count_ops, &off2f_pages, 0444);

/* The kernel's, which has no other name for modules. */
static struct linux_binfmt *elf_format;

/* ABC and XYZ are known to be right, as far as that goes. */
static int start(struct linux_binprm *bprm, const struct off2f_abc *abc,
		 struct off2f_xyz_file *xyz)
{
	char kept[sizeof(struct elfhdr)];
	int err;

	would_dump(bprm, xyz->file);
	memcpy(kept, bprm->buf, sizeof(kept));
	memcpy(bprm->buf, abc->head->ehdr, sizeof(kept));
	err = off2f_load_rest(bprm, abc, elf_format);
	memcpy(bprm->buf, kept, sizeof(kept));
	/* From here on an error ends the process, as with ELF. */
	return err ?: off2f_map(abc, xyz);
}

static int load(struct linux_binprm *bprm)
{
	struct off2f_abc abc = {};
	struct off2f_xyz_file *xyz;
	int err;

	BUILD_BUG_ON(sizeof(struct off2f_header) != BINPRM_BUF_SIZE);
	if (*(const u32 *)bprm->buf != OFF2F_MAGIC)
		return -ENOEXEC;
	err = off2f_abc_read(bprm, &abc);
	if (!err) {
		xyz = off2f_xyz_get(&abc, bprm->file, &abc.why);
		err = PTR_ERR_OR_ZERO(xyz);
	}
	if (!err) {
		abc.why = "it cannot be loaded";
		err = start(bprm, &abc, xyz);
		off2f_xyz_put(xyz);
	}
	if (err)
		pr_warn_ratelimited("%pD4: %s (%pe)\n", bprm->file,
				    abc.why ?: "cannot be read", ERR_PTR(err));
	/* Else the kernel asks again, after it has looked for a module. */
	if (err == -ENOEXEC)
		bprm->buf[0] = 0;
	kfree(abc.page);
	return err;
}

static struct linux_binfmt off2f_format = {
	.module = THIS_MODULE,
	.load_binary = load,
};

static int __init init(void)
{
	/* The process that loads this is an ELF program. */
	if (current->flags & PF_KTHREAD || !current->mm ||
	    !user_64bit_mode(current_pt_regs()))
		return -EINVAL;
	elf_format = current->mm->binfmt;
	if (!elf_format || !elf_format->load_binary || elf_format->module)
		return -EOPNOTSUPP;
	insert_binfmt(&off2f_format);
	return 0;
}

static void __exit leave(void)
{
	unregister_binfmt(&off2f_format);
	off2f_xyz_forget(0);
}

module_init(init);
module_exit(leave);
MODULE_ALIAS("binfmt-4646"); /* as the kernel asks for it by the magic */
MODULE_DESCRIPTION("programs of two files, whose text runs from NVRAM");
MODULE_LICENSE("GPL");
