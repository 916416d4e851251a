// SPDX-License-Identifier: GPL-2.0-only
/*
 * The header page of an ABC, which may be of anybody.
 */
#include <linux/crc32c.h>
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
	crc = ~crc32c(~0, page, bytes);
	head->crc = kept;
	return crc;
}

/**
 * off2f_abc_read() - read and check the header page, one page, of an ABC
 * @file: it
 * @abc: filled in; the caller frees @abc->page
 *
 * Return: 0; -ENOEXEC for another version or machine, -EBADMSG for damage,
 * with @abc->why set.
 */
int off2f_abc_read(struct file *file, struct off2f_abc *abc)
{
	const struct off2f_header *head;
	loff_t at = 0;
	ssize_t got;

	got = kernel_read(file, abc->page, OFF2F_PAGE_BYTES, &at);
	if (got < 0)
		return got;
	head = abc->page;
	abc->head = head;
	if (got < (ssize_t)sizeof(*head) || head->magic != OFF2F_MAGIC) {
		abc->why = "its header is cut off";
		return -EBADMSG;
	}
	abc->why = "it is of another version of OFF2F";
	if (head->version != OFF2F_VERSION)
		return -ENOEXEC;
	abc->why = "its header is damaged";
	if (head->header_bytes < sizeof(*head) || head->header_bytes > got ||
	    head->crc != crc_of(abc->page, head->header_bytes))
		return -EBADMSG;
	abc->why = "it is for another machine";
	if (head->machine != EM_X86_64)
		return -ENOEXEC;
	abc->why = "its size is not what its header says: cut off?";
	if (i_size_read(file_inode(file)) != head->abc_bytes)
		return -EBADMSG;
	abc->why = judge_parts(abc);
	return abc->why ? -EBADMSG : 0;
}
