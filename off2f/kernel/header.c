// SPDX-License-Identifier: GPL-2.0-only
/*
 * The header page of an ABC, which may be of anybody.
 */
#include <linux/binfmts.h>
#include <linux/crc32.h>
#include <linux/elf.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "binfmt_off2f.h"

static bool text_is_possible(const struct off2f_text *text, u64 xyz_bytes)
{
	u64 end = xyz_bytes - sizeof(struct off2f_xyz);

	return PAGE_ALIGNED(text->vaddr) && PAGE_ALIGNED(text->bytes) &&
	       PAGE_ALIGNED(text->xyz_offset) && text->bytes &&
	       text->vaddr < TASK_SIZE_MAX &&
	       text->bytes <= TASK_SIZE_MAX - text->vaddr &&
	       text->xyz_offset < end &&
	       text->bytes <= end - text->xyz_offset &&
	       text->flags & PF_X && !(text->flags & ~(PF_R | PF_X));
}

/* Of the parts behind the fixed one; their sizes are those of the header. */
static const char *judge_parts(struct off2f_abc *abc)
{
	const struct off2f_header *head = abc->head;
	size_t at = sizeof(*head);
	u32 i;

	if (!head->texts || head->texts > OFF2F_TEXTS_MAX || !head->phdrs ||
	    head->phdrs > OFF2F_PHDRS_MAX || head->path_bytes < 2 ||
	    head->path_bytes > OFF2F_PATH_MAX)
		return "a count in its header is impossible";
	at += head->texts * sizeof(struct off2f_text);
	at += head->phdrs * sizeof(struct off2f_phdr);
	if (at + head->path_bytes != head->header_bytes)
		return "its header's parts are not of its size";
	abc->text = abc->page + sizeof(*head);
	abc->path = abc->page + at;
	if (abc->path[0] != '/' ||
	    strnlen(abc->path, head->path_bytes) != head->path_bytes - 1)
		return "the path of XYZ is none";
	if (head->xyz_bytes <= sizeof(struct off2f_xyz) ||
	    head->xyz_bytes >= OFF2F_FILE_MAX)
		return "the size of XYZ is impossible";
	for (i = 0; i < head->texts; i++)
		if (!text_is_possible(&abc->text[i], head->xyz_bytes))
			return "a text in its header is impossible";
	return NULL;
}

static u32 crc_of(void *page, u32 bytes)
{
	struct off2f_header *head = page;
	u32 kept = head->crc;
	u32 crc;

	head->crc = 0;
	crc = ~__crc32c_le(~0, page, bytes);
	head->crc = kept;
	return crc;
}

/* Of the header page only what is used; exec has read its beginning already. */
static int read_rest(struct linux_binprm *bprm, struct off2f_abc *abc)
{
	const struct off2f_header *head = abc->page;
	u32 rest = head->header_bytes - BINPRM_BUF_SIZE;
	loff_t at = BINPRM_BUF_SIZE;

	abc->why = "its header is cut off";
	if (kernel_read(bprm->file, abc->page + BINPRM_BUF_SIZE, rest, &at) !=
	    rest)
		return -EBADMSG;
	abc->why = "its header is damaged";
	if (head->crc != crc_of(abc->page, head->header_bytes))
		return -EBADMSG;
	return 0;
}

/**
 * off2f_page_bytes() - of a header, and of the program headers behind it
 * @head: its fixed part
 */
size_t off2f_page_bytes(const struct off2f_header *head)
{
	return ALIGN(head->header_bytes, 8) +
	       head->phdrs * sizeof(struct elf_phdr);
}

/* Known: it was read before. */
static int read_header(struct linux_binprm *bprm, struct off2f_abc *abc)
{
	const struct off2f_header *head = (void *)bprm->buf;

	abc->why = "it is of another version of OFF2F";
	if (head->version != OFF2F_VERSION)
		return -ENOEXEC;
	abc->why = "its header is damaged";
	if (head->header_bytes <= BINPRM_BUF_SIZE ||
	    head->header_bytes > OFF2F_PAGE_BYTES ||
	    head->phdrs > OFF2F_PHDRS_MAX)
		return -EBADMSG;
	abc->page = kmalloc(off2f_page_bytes(head), GFP_KERNEL);
	if (!abc->page)
		return -ENOMEM;
	abc->head = abc->page;
	memcpy(abc->page, bprm->buf, BINPRM_BUF_SIZE);
	abc->known = off2f_xyz_header(abc->page, bprm->file);
	return abc->known ? 0 : read_rest(bprm, abc);
}

/**
 * off2f_abc_read() - read and check the header of an ABC
 * @bprm: with its file and first bytes
 * @abc: filled in; the caller frees @abc->page
 *
 * Return: 0; -ENOEXEC for another version or machine, -EBADMSG for damage,
 * with @abc->why set.
 */
int off2f_abc_read(struct linux_binprm *bprm, struct off2f_abc *abc)
{
	const struct off2f_header *head;
	int err;

	err = read_header(bprm, abc);
	if (err)
		return err;
	head = abc->head;
	abc->why = "it is for another machine";
	if (head->machine != EM_X86_64)
		return -ENOEXEC;
	abc->why = "its size is not what its header says: cut off?";
	if (i_size_read(file_inode(bprm->file)) != head->abc_bytes)
		return -EBADMSG;
	abc->why = judge_parts(abc);
	if (abc->why)
		return -EBADMSG;
	abc->phdr = abc->page + ALIGN(head->header_bytes, 8);
	return abc->known ? 0 : off2f_phdrs_read(bprm, abc);
}
