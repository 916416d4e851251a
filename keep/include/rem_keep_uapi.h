/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * /dev/rem_keep: a range of non-volatile memory whose pages are handed to the
 * page allocator one by one, or put into a process with what they hold.
 *
 * A page is *held* after its memory block went online, and until it is freed or
 * put. Only held pages can be read and written, at offset page * 4096. What is
 * written is durable when write() returns.
 */
#ifndef REM_KEEP_UAPI_H
#define REM_KEEP_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * struct rem_keep_info - the range
 * @start: physical address in bytes
 * @node: NUMA node of its pages
 * @held: how many of @pages are held
 */
struct rem_keep_info {
	__u64 start;
	__u32 pages;
	__u32 held;
	__s32 node;
	__u32 reserved;
};

/*
 * struct rem_keep_span - pages @first to @first + @pages - 1 of the range
 */
struct rem_keep_span {
	__u32 first;
	__u32 pages;
};

/*
 * struct rem_keep_take - pages that the page allocator gives back
 * @count: in: how many are wanted; out: how many were taken
 * @frames: address of __u32[@count], filled with their numbers
 */
struct rem_keep_take {
	__u64 frames;
	__u32 count;
	__u32 reserved;
};

/*
 * struct rem_keep_put - held pages for one process, which does not run
 * @entries: address of struct rem_keep_entry[@count] (format/rem_keep.h)
 * @placed: out: how many pages the process has now as its own
 * @copied: out: how many it has as copies, since a page was there already
 */
struct rem_keep_put {
	__u64 entries;
	__u32 count;
	__u32 pid;
	__u32 placed;
	__u32 copied;
};

/*
 * struct rem_keep_list - pages, by their entries in a table
 * @entries: address of struct rem_keep_entry[@count] (format/rem_keep.h)
 */
struct rem_keep_list {
	__u64 entries;
	__u32 count;
	__u32 reserved;
};

/* A frame of struct rem_keep_entry: no page of the range, or another entry's. */
#define REM_KEEP_ELSEWHERE 0xffffffff

/*
 * struct rem_keep_pin - pages of one process, which does not run
 * @entries: address of struct rem_keep_entry[@count], filled
 * @vaddr: of the first; the others follow
 * @elsewhere: out: how many entries have REM_KEEP_ELSEWHERE
 */
struct rem_keep_pin {
	__u64 entries;
	__u64 vaddr;
	__u32 count;
	__u32 pid;
	__u32 elsewhere;
	__u32 reserved;
};

#define REM_KEEP_INFO _IOR('K', 0x60, struct rem_keep_info)
/* Free held pages to the page allocator. -EBUSY if one is not held; then none is. */
#define REM_KEEP_FREE _IOW('K', 0x61, struct rem_keep_span)
#define REM_KEEP_TAKE _IOWR('K', 0x62, struct rem_keep_take)
/* After an error @placed + @copied entries, from the first, are in the process. */
#define REM_KEEP_PUT _IOWR('K', 0x63, struct rem_keep_put)
/* Write back all CPU caches: after it, all that CPUs have stored is durable. */
#define REM_KEEP_FLUSH _IO('K', 0x64)

/*
 * A checkpoint shares these pages with processes that are frozen, and whose
 * page-table entries were made read-only (4 to /proc/PID/clear_refs): the next
 * store of a process gets a copy. What is shared already stays so.
 */
#define REM_KEEP_SHARE _IOW('K', 0x65, struct rem_keep_list)
#define REM_KEEP_UNSHARE _IOW('K', 0x66, struct rem_keep_list)

/*
 * Where the pages of a process are. They stay there, and keep their content, until
 * REM_KEEP_UNPIN, which is for all of them. A page has one entry until then.
 */
#define REM_KEEP_PIN _IOWR('K', 0x67, struct rem_keep_pin)
#define REM_KEEP_UNPIN _IO('K', 0x68)

#endif /* REM_KEEP_UAPI_H */
