/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * binfmt_off2f: what its files share.
 */
#ifndef BINFMT_OFF2F_H
#define BINFMT_OFF2F_H

#include <linux/elf.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>

#include "off2f.h"

/* Pages that are mapped at once. */
#define TEXT_AROUND 64UL

struct dax_device;
struct linux_binfmt;
struct linux_binprm;

/* The header of an ABC, checked; points into @page. */
struct off2f_abc {
	void *page;
	bool known; /* taken from a text file that is held */
	const struct off2f_header *head;
	const struct off2f_text *text;
	struct elf_phdr *phdr; /* as binfmt_elf sees them */
	const char *path;
	const char *why; /* set where it is refused */
};

/* Which ABC, and that nobody has written to it since. */
struct off2f_abc_id {
	dev_t dev;
	u32 generation;
	u64 ino;
	u64 version; /* finer than the time, where the file system counts */
	struct timespec64 changed;
};

/*
 * A text file: an XYZ that is, or was lately, executed. Nobody may write to it
 * as long as this is there, so its blocks stay where they are.
 */
struct off2f_xyz_file {
	struct kref ref;
	struct list_head node;
	struct file *file;
	struct dax_device *dax;
	u64 dax_start; /* of the file system on the device, in bytes */
	const struct vm_operations_struct *fs_ops;
	u8 text_sha256[32];
	struct off2f_abc_id abc;
	void *header; /* of the ABC that last had this text, and program headers */
	unsigned long pages;
	bool looked_up; /* the pages of at least one program's texts */
	unsigned long *frame; /* by page; 0 = not looked up */
	u8 *huge; /* by 2 MiB: HUGE_... */
};

enum {
	HUGE_UNKNOWN,
	HUGE_YES,
	HUGE_NO,
};

int off2f_abc_read(struct linux_binprm *bprm, struct off2f_abc *abc);
size_t off2f_page_bytes(const struct off2f_header *head);
int off2f_phdrs_read(struct linux_binprm *bprm, struct off2f_abc *abc);
bool off2f_is_left_out(const struct off2f_abc *abc,
		       const struct off2f_text *text);
u64 off2f_end_of_code(const struct off2f_abc *abc);
int off2f_load_rest(struct linux_binprm *bprm, const struct off2f_abc *abc,
		    const struct linux_binfmt *elf);

struct off2f_xyz_file *off2f_xyz_get(const struct off2f_abc *abc,
				     struct file *abc_file, const char **why);
bool off2f_xyz_header(struct off2f_header *head, const struct file *abc_file);
void off2f_xyz_put(struct off2f_xyz_file *xyz);
void off2f_xyz_look_up(struct off2f_xyz_file *xyz, const struct off2f_abc *abc);
void off2f_xyz_forget(unsigned int keep);
int off2f_map(const struct off2f_abc *abc, struct off2f_xyz_file *xyz);
int off2f_text_access(struct vm_area_struct *vma, unsigned long address,
		      void *buffer, int bytes, int write);

extern unsigned int off2f_keep;
extern bool off2f_strict;
extern atomic_long_t off2f_faults;
extern atomic_long_t off2f_huge_faults;
extern atomic_long_t off2f_pages;

#endif /* BINFMT_OFF2F_H */
