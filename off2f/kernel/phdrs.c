// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program headers that binfmt_elf sees. Those in ABC, and so in memory, are
 * the ELF's, as the program and its debugger must see them: their offsets are
 * not those of ABC, which the header page has, and each text has its size;
 * binfmt_elf would map that much of ABC, and our own mapping would have to
 * replace it. So binfmt_elf reads them with ABC's offsets and with texts of no
 * bytes, for which it maps nothing but still notes the address. It reads by the
 * file's operation, which is ours until then: only exec has this open file.
 */
#include <linux/binfmts.h>
#include <linux/elf.h>
#include <linux/sizes.h>
#include <linux/uio.h>

#include "binfmt_off2f.h"

static const struct elfhdr *elf_header(const struct off2f_abc *abc)
{
	return (const void *)abc->head->ehdr;
}

static bool has_interpreter(const struct off2f_abc *abc)
{
	u32 i;

	for (i = 0; i < abc->head->phdrs; i++)
		if (abc->phdr[i].p_type == PT_INTERP)
			return true;
	return false;
}

/*
 * A text may be left out where nothing else is put into its place meanwhile, and
 * where no other figure of the whole program is taken from it: its first and
 * last address, the address of the program headers.
 */
static bool may_leave_out(const struct off2f_abc *abc,
			  const struct off2f_text *text)
{
	const struct elf_phdr *this = &abc->phdr[text->phdr], *other;
	const struct elfhdr *elf = elf_header(abc);
	bool before = false, after = false;
	u32 i;

	if (this->p_type != PT_LOAD || !(this->p_flags & PF_X) ||
	    (this->p_vaddr & PAGE_MASK) != text->vaddr ||
	    this->p_filesz != this->p_memsz || this->p_memsz > SZ_4G)
		return false;
	if (this->p_offset <= elf->e_phoff &&
	    elf->e_phoff - this->p_offset < this->p_filesz)
		return false;
	/* The kernel itself looks for room at higher addresses than these. */
	if (this->p_vaddr > SZ_4G - this->p_memsz ||
	    (elf->e_type == ET_DYN && !has_interpreter(abc)))
		return false;
	for (i = 0; i < abc->head->phdrs; i++) {
		other = &abc->phdr[i];
		if (other->p_type != PT_LOAD || other->p_flags & PF_X)
			continue;
		before |= i < text->phdr && other->p_vaddr < this->p_vaddr;
		after |= i > text->phdr && other->p_vaddr > this->p_vaddr;
	}
	return before && after;
}

/* Where their bytes are in ABC. */
static void set_offsets(const struct off2f_abc *abc)
{
	const struct off2f_phdr *in_abc =
		(const void *)(abc->text + abc->head->texts);
	u32 i;

	for (i = 0; i < abc->head->phdrs; i++) {
		abc->phdr[i].p_offset = in_abc[i].offset;
		abc->phdr[i].p_align = in_abc[i].align;
	}
}

/* Its size is kept where binfmt_elf does not look. */
static void leave_out(struct elf_phdr *phdr)
{
	phdr->p_paddr = phdr->p_filesz;
	phdr->p_filesz = 0;
	phdr->p_memsz = 0;
}

/**
 * off2f_is_left_out() - whether nothing has been mapped for a text so far
 * @abc: the program
 * @text: one of its texts
 */
bool off2f_is_left_out(const struct off2f_abc *abc,
		       const struct off2f_text *text)
{
	return !abc->phdr[text->phdr].p_memsz;
}

/**
 * off2f_end_of_code() - as binfmt_elf would note it, before the load address
 * @abc: the program
 */
u64 off2f_end_of_code(const struct off2f_abc *abc)
{
	u64 end = 0;
	u32 i;

	for (i = 0; i < abc->head->texts; i++) {
		const struct elf_phdr *phdr = &abc->phdr[abc->text[i].phdr];

		end = max(end, phdr->p_vaddr + (phdr->p_memsz ? phdr->p_filesz :
								phdr->p_paddr));
	}
	return end;
}

/**
 * off2f_phdrs_read() - read ABC's program headers, and decide which texts
 * to hide from binfmt_elf
 * @bprm: with its file
 * @abc: its header, checked; room for the program headers at @abc->phdr
 *
 * Return: 0, -EBADMSG where they are not there.
 */
int off2f_phdrs_read(struct linux_binprm *bprm, struct off2f_abc *abc)
{
	const struct elfhdr *elf = elf_header(abc);
	size_t bytes = abc->head->phdrs * sizeof(*abc->phdr);
	loff_t at = elf->e_phoff;
	u32 i;

	abc->why = "its program headers are not in it";
	if (elf->e_phnum != abc->head->phdrs ||
	    elf->e_phentsize != sizeof(*abc->phdr) ||
	    kernel_read(bprm->file, abc->phdr, bytes, &at) != bytes)
		return -EBADMSG;
	set_offsets(abc);
	abc->why = "a text has no program header";
	for (i = 0; i < abc->head->texts; i++) {
		if (abc->text[i].phdr >= abc->head->phdrs)
			return -EBADMSG;
		if (may_leave_out(abc, &abc->text[i]))
			leave_out(&abc->phdr[abc->text[i].phdr]);
	}
	return 0;
}

/* While binfmt_elf reads them. */
struct shown {
	const struct file_operations operations;
	const struct file_operations *own; /* of the file */
	const struct off2f_abc *abc;
};

static ssize_t read_shown(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;
	const struct shown *shown =
		container_of(file->f_op, struct shown, operations);
	const struct off2f_abc *abc = shown->abc;
	size_t bytes = abc->head->phdrs * sizeof(*abc->phdr);

	if (iocb->ki_pos != elf_header(abc)->e_phoff ||
	    iov_iter_count(to) != bytes)
		return shown->own->read_iter(iocb, to);
	file->f_op = shown->own;
	return copy_to_iter(abc->phdr, bytes, to);
}

/**
 * off2f_load_rest() - have binfmt_elf load all of a program but its texts
 * @bprm: with its file, and the ELF header in its buffer
 * @abc: its program headers
 * @elf: binfmt_elf
 *
 * The program headers are the first that it reads of the file.
 */
int off2f_load_rest(struct linux_binprm *bprm, const struct off2f_abc *abc,
		    const struct linux_binfmt *elf)
{
	struct file *file = bprm->file;
	const struct shown shown = {
		.operations = {
			.read_iter = read_shown,
			.mmap = file->f_op->mmap, /* it looks whether there is one */
		},
		.own = file->f_op,
		.abc = abc,
	};
	int err;

	file->f_op = &shown.operations;
	err = elf->load_binary(bprm);
	file->f_op = shown.own;
	return err;
}
