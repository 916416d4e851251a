// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the pages of a text file are in NVRAM.
 */
#include <linux/dax.h>
#include <linux/fiemap.h>
#include <linux/pfn_t.h>

#include "binfmt_off2f.h"

/* Pages in blocks in a row. What is not in one piece of NVRAM takes several. */
static int look_up_run(struct off2f_xyz_file *xyz, unsigned long page,
		       sector_t block, unsigned long count)
{
	unsigned long i;
	pfn_t frame;
	long got;
	int id;

	for (; count; page += got, block += got, count -= got) {
		id = dax_read_lock();
		got = dax_direct_access(xyz->dax,
					block + PHYS_PFN(xyz->dax_start), count,
					DAX_ACCESS, NULL, &frame);
		dax_read_unlock(id);
		if (got < 1)
			return got < 0 ? got : -EIO;
		if (!pfn_t_devmap(frame))
			return -ENXIO;
		got = min_t(unsigned long, got, count);
		for (i = 0; i < got; i++)
			WRITE_ONCE(xyz->frame[page + i],
				   pfn_t_to_pfn(frame) + i);
	}
	return 0;
}

/*
 * Whether pages are in one piece: the file system counts its pieces there,
 * which to a caller outside of it is all that it says in kernel memory.
 */
static bool in_one_piece(struct inode *inode, unsigned long page,
			 sector_t start, unsigned long count)
{
	struct fiemap_extent_info pieces = {};
	sector_t last = page + count - 1;

	return inode->i_op->fiemap &&
	       !inode->i_op->fiemap(inode, &pieces, (u64)page << PAGE_SHIFT,
				    (u64)count << PAGE_SHIFT) &&
	       pieces.fi_extents_mapped == 1 && !bmap(inode, &last) &&
	       last == start + count - 1;
}

/* How many pages from one on, whose block is known, are in blocks in a row. */
static unsigned long run_of(struct inode *inode, unsigned long page,
			    sector_t start, unsigned long most)
{
	unsigned long run;

	for (run = most; run > 1; run /= 2)
		if (in_one_piece(inode, page, start, run))
			return run;
	return 1;
}

static int look_up(struct off2f_xyz_file *xyz, unsigned long page,
		   unsigned long end)
{
	struct inode *inode = file_inode(xyz->file);
	unsigned long run;
	sector_t start;
	int err;

	while (page < end) {
		if (READ_ONCE(xyz->frame[page])) {
			page++;
			continue;
		}
		start = page;
		err = bmap(inode, &start);
		if (err || !start)
			return err;
		run = run_of(inode, page, start, end - page);
		err = look_up_run(xyz, page, start, run);
		if (err)
			return err;
		page += run;
		cond_resched();
	}
	return 0;
}

/**
 * off2f_xyz_look_up() - find out where the texts of a program are
 * @xyz: the file that they are in
 * @abc: the program
 *
 * By the file system's own account of the file's blocks, which stay where they
 * are while nobody may write to it. What is in a hole is not found, and left to
 * the file system's own fault handler; the text's pages are in none.
 *
 * Context: may sleep, and takes the inode's lock as a read of the file does: so
 * never in a page fault, where the address space is locked already, which a write
 * of that file system locks inside. Several may do the same at once.
 */
void off2f_xyz_look_up(struct off2f_xyz_file *xyz, const struct off2f_abc *abc)
{
	u32 i;

	if (abc->known && READ_ONCE(xyz->looked_up))
		return;
	for (i = 0; i < abc->head->texts; i++) {
		unsigned long first = abc->text[i].xyz_offset >> PAGE_SHIFT;
		unsigned long count = abc->text[i].bytes >> PAGE_SHIFT;

		look_up(xyz, min(first, xyz->pages),
			min(first + count, xyz->pages));
	}
	WRITE_ONCE(xyz->looked_up, true);
}
