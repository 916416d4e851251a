// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text files. One that is executed, or was lately, is held: open, and closed to
 * writers, so that where its pages are in NVRAM need be looked up only once.
 * `keep` says how many of those that nobody executes are held; a file system
 * with one of them cannot be unmounted, which writing 0 to it ends.
 */
#include <crypto/sha2.h>
#include <linux/blkdev.h>
#include <linux/dax.h>
#include <linux/iversion.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "binfmt_off2f.h"

static DEFINE_MUTEX(lock); /* of the list */
static LIST_HEAD(files); /* the last executed first */

static void close_file(struct file *file)
{
	exe_file_allow_write_access(file);
	fput(file);
}

static void xyz_free(struct kref *ref)
{
	struct off2f_xyz_file *xyz = container_of(ref, typeof(*xyz), ref);

	close_file(xyz->file);
	if (xyz->dax)
		fs_put_dax(xyz->dax, NULL);
	kvfree(xyz->frame);
	kvfree(xyz->huge);
	kfree(xyz->header);
	kfree(xyz);
}

/**
 * off2f_xyz_put() - hold a text file no longer
 * @xyz: the file
 */
void off2f_xyz_put(struct off2f_xyz_file *xyz)
{
	kref_put(&xyz->ref, xyz_free);
}

/* Its blocks may be given to another file as soon as the last holder goes. */
static void unlist(struct off2f_xyz_file *xyz)
{
	list_del(&xyz->node);
	off2f_xyz_put(xyz);
}

static void shorten(unsigned int keep)
{
	struct off2f_xyz_file *xyz, *next;
	unsigned int count = 0;

	list_for_each_entry_safe(xyz, next, &files, node)
		if (++count > keep || !file_inode(xyz->file)->i_nlink)
			unlist(xyz);
}

/**
 * off2f_xyz_forget() - hold no more than some of the files nobody executes
 * @keep: how many
 */
void off2f_xyz_forget(unsigned int keep)
{
	mutex_lock(&lock);
	shorten(keep);
	mutex_unlock(&lock);
}

static struct off2f_xyz_file *find(const struct inode *inode)
{
	struct off2f_xyz_file *xyz;

	list_for_each_entry(xyz, &files, node)
		if (file_inode(xyz->file) == inode)
			return xyz;
	return NULL;
}

/* Another's file with the same sum may have another rest: which file it is. */
static struct off2f_abc_id id_of(const struct file *abc)
{
	struct inode *inode = file_inode(abc);

	return (struct off2f_abc_id){
		.dev = inode->i_sb->s_dev,
		.generation = inode->i_generation,
		.ino = inode->i_ino,
		.version = IS_I_VERSION(inode) ? inode_query_iversion(inode) :
						 0,
		.changed = inode_get_ctime(inode),
	};
}

/**
 * off2f_xyz_header() - a header that was read and checked before
 * @head: its fixed part, with room for the rest and the program headers
 * @abc_file: the file that it is of
 *
 * The file has not changed since then, so the rest need not be read again.
 */
bool off2f_xyz_header(struct off2f_header *head, const struct file *abc_file)
{
	struct off2f_abc_id id = id_of(abc_file);
	const struct off2f_header *kept;
	struct off2f_xyz_file *xyz;
	bool known = false;

	mutex_lock(&lock);
	list_for_each_entry(xyz, &files, node) {
		kept = xyz->header;
		if (!kept || memcmp(&xyz->abc, &id, sizeof(id)) ||
		    memcmp(kept, head, sizeof(*head)))
			continue;
		memcpy(head, kept, off2f_page_bytes(kept));
		known = true;
		break;
	}
	mutex_unlock(&lock);
	return known;
}

/* Without memory it is read again the next time. */
static void keep_header(struct off2f_xyz_file *xyz, const struct off2f_abc *abc,
			const struct file *abc_file)
{
	if (abc->known)
		return;
	xyz->abc = id_of(abc_file);
	kfree(xyz->header);
	xyz->header =
		kmemdup(abc->page, off2f_page_bytes(abc->head), GFP_KERNEL);
}

/* Whether the text is that of the ABC: what XYZ says of itself. */
static int judge_end(struct file *file, const struct off2f_header *head,
		     const char **why)
{
	struct off2f_xyz end;
	loff_t at = head->xyz_bytes - sizeof(end);

	*why = "XYZ is of another size";
	if (i_size_read(file_inode(file)) != head->xyz_bytes)
		return -EBADMSG;
	*why = "XYZ cannot be read";
	if (kernel_read(file, &end, sizeof(end), &at) != sizeof(end))
		return -EIO;
	*why = "XYZ has the text of another program, or its end is damaged";
	if (end.magic != OFF2F_XYZ_MAGIC || end.version != OFF2F_VERSION ||
	    end.xyz_bytes != head->xyz_bytes ||
	    memcmp(end.text_sha256, head->text_sha256, 32) ||
	    memcmp(end.build_id, head->build_id, 20))
		return -EBADMSG;
	return 0;
}

/* Whether each byte is right. */
static int judge_text(struct file *file, const struct off2f_abc *abc,
		      const char **why)
{
	struct sha256_state sum;
	u8 digest[32];
	void *part;
	int err = 0;
	u32 i;

	part = kvmalloc(SZ_64K, GFP_KERNEL);
	if (!part)
		return -ENOMEM;
	sha256_init(&sum);
	for (i = 0; i < abc->head->texts && !err; i++) {
		loff_t at = abc->text[i].xyz_offset;
		loff_t end = at + abc->text[i].bytes;

		while (at < end && !err) {
			size_t want = min_t(u64, end - at, SZ_64K);

			if (kernel_read(file, part, want, &at) != want)
				err = -EIO;
			else if (fatal_signal_pending(current))
				err = -EINTR;
			else
				sha256_update(&sum, part, want);
			cond_resched();
		}
	}
	sha256_final(&sum, digest);
	kvfree(part);
	*why = "the text is damaged: its digest is another one";
	if (!err && memcmp(digest, abc->head->text_sha256, 32))
		err = -EBADMSG;
	return err;
}

/*
 * A writer of the text controls the program: as with an interpreter, that must
 * not be allowed for a program of another owner.
 */
static bool owner_is_right(struct file *xyz, struct file *abc)
{
	const struct inode *inode = file_inode(xyz);

	return !(inode->i_mode & 0022) &&
	       (uid_eq(inode->i_uid, GLOBAL_ROOT_UID) ||
		uid_eq(inode->i_uid, file_inode(abc)->i_uid));
}

/* Takes over @file where it succeeds. */
static struct off2f_xyz_file *make(struct file *file, const char **why)
{
	struct inode *inode = file_inode(file);
	struct off2f_xyz_file *xyz;
	unsigned long parts;

	*why = "no memory";
	xyz = kzalloc(sizeof(*xyz), GFP_KERNEL);
	if (!xyz)
		return ERR_PTR(-ENOMEM);
	kref_init(&xyz->ref);
	xyz->pages = i_size_read(inode) >> PAGE_SHIFT;
	parts = DIV_ROUND_UP(xyz->pages, PTRS_PER_PMD);
	xyz->frame = kvcalloc(xyz->pages, sizeof(*xyz->frame), GFP_KERNEL);
	xyz->huge = kvzalloc(parts, GFP_KERNEL);
	if (xyz->frame && xyz->huge) {
		*why = "the text is not in NVRAM: XYZ is on no DAX file system";
		if (IS_DAX(inode) && inode->i_sb->s_bdev &&
		    inode->i_blkbits == PAGE_SHIFT)
			xyz->dax = fs_dax_get_by_bdev(inode->i_sb->s_bdev,
						      &xyz->dax_start, NULL,
						      NULL);
		if (xyz->dax) {
			xyz->file = file;
			return xyz;
		}
	}
	parts = xyz->frame && xyz->huge;
	kvfree(xyz->frame);
	kvfree(xyz->huge);
	kfree(xyz);
	return ERR_PTR(parts ? -ENOEXEC : -ENOMEM);
}

/* One that is not yet held. Takes over @file where it succeeds. */
static struct off2f_xyz_file *admit(const struct off2f_abc *abc,
				    struct file *file, const char **why)
{
	struct off2f_xyz_file *xyz;
	int err;

	err = judge_end(file, abc->head, why);
	if (err)
		return ERR_PTR(err);
	xyz = make(file, why);
	if (IS_ERR(xyz))
		return xyz;
	memcpy(xyz->text_sha256, abc->head->text_sha256, 32);
	if (READ_ONCE(off2f_keep)) {
		kref_get(&xyz->ref);
		list_add(&xyz->node, &files);
		shorten(READ_ONCE(off2f_keep));
	}
	return xyz;
}

/* One that is held already, if it is the right one. */
static int again(struct off2f_xyz_file *xyz, const struct off2f_abc *abc,
		 const char **why)
{
	*why = "XYZ has the text of another program";
	if (i_size_read(file_inode(xyz->file)) != abc->head->xyz_bytes ||
	    memcmp(xyz->text_sha256, abc->head->text_sha256, 32))
		return -EBADMSG;
	kref_get(&xyz->ref);
	list_move(&xyz->node, &files);
	return 0;
}

/**
 * off2f_xyz_get() - open and judge the text of a program
 * @abc: the program
 * @abc_file: its file
 * @why: set where it is refused
 *
 * Return: what off2f_xyz_put() is for; -ENOENT, -EACCES, -ETXTBSY as of any
 * executable file, -EBADMSG where it is another text or damaged, -ENOEXEC where
 * it is not in NVRAM.
 */
struct off2f_xyz_file *off2f_xyz_get(const struct off2f_abc *abc,
				     struct file *abc_file, const char **why)
{
	struct off2f_xyz_file *xyz;
	struct file *file;
	int err = 0;

	*why = "XYZ cannot be opened for execution";
	file = open_exec(abc->path);
	if (IS_ERR(file))
		return ERR_CAST(file);
	*why = "XYZ is another owner's, or may be written by others";
	if (!owner_is_right(file, abc_file))
		err = -EACCES;
	if (!err && READ_ONCE(off2f_strict))
		err = judge_end(file, abc->head, why) ?:
		      judge_text(file, abc, why);
	if (err) {
		close_file(file);
		return ERR_PTR(err);
	}
	mutex_lock(&lock);
	xyz = find(file_inode(file));
	if (xyz) {
		err = again(xyz, abc, why);
		xyz = err ? ERR_PTR(err) : xyz;
		close_file(file);
	} else {
		xyz = admit(abc, file, why);
		if (IS_ERR(xyz))
			close_file(file);
	}
	if (!IS_ERR(xyz))
		keep_header(xyz, abc, abc_file);
	mutex_unlock(&lock);
	if (!IS_ERR(xyz))
		off2f_xyz_look_up(xyz, abc);
	return xyz;
}
