/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The interface of programs and modules, through /dev/pmctl (pmcore), /dev/pmbc and
 * /dev/pmramd. The same bytes for programs of 32 and 64 bits; "reserved" must
 * be zero. libpm is the ordinary way to use it.
 */
#ifndef REM_PM_UAPI_H
#define REM_PM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PM_NAME_BYTES 64
#define PM_SLOT_BY_NAME 0xffffffff

struct pm_ioc_status {
	__u64 region_bytes;
	__u64 base_bytes; /* of the base segment */
	__u64 free_bytes;
	__u64 wish_bytes; /* requested region size, 0 = none */
	__u64 repaired;	  /* slots put right since the region was taken over */
	__u64 damaged;	  /* halves of slots that were found damaged */
	__u64 events;	  /* counts changes; poll() reports a new one */
	__u64 phys;	  /* physical address of the region */
	__u32 slots;
	__u32 used;
	__u32 refused; /* slots whose copies are all damaged */
	__u32 flags;   /* PM_HAS_ */
	__u8 uuid[16];
	char source[64];   /* where the region is from */
	__u64 address;	   /* of the kernel's mapping: PM_HAS_SAME_ADDRESS */
	__u64 limit_bytes; /* to which pm= lets the region grow, or 0 */
	__u64 windows;	   /* times that the region was opened for a write */
	__u64 reserved[1];
};

#define PM_HAS_DAX 1	      /* disks on raw segments have direct access */
#define PM_HAS_SAME_ADDRESS 2 /* the same kernel address at each boot */
#define PM_HAS_PROTECTION 4   /* stray stores of the kernel fault */
#define PM_HAS_FOF 8	      /* persist=fof is kept by the platform */

/* @state of a segment */
#define PM_STATE_USED 1
#define PM_STATE_REFUSED 2

/* @type of a segment */
#define PM_TYPE_RAW 2
#define PM_TYPE_BLOCK 3

/* @persist of a segment */
#define PM_PERSIST_FOC 1 /* each commit writes the caches back */
#define PM_PERSIST_FOF 2 /* the platform does when the power fails */

struct pm_ioc_segment {
	char name[PM_NAME_BYTES];
	__u32 slot; /* in: PM_SLOT_BY_NAME, or one to look at */
	__u32 state;
	__u32 type;    /* PM_TYPE_ */
	__u32 persist; /* PM_PERSIST_ */
	__u64 offset;
	__u64 bytes;
	__u64 extent_bytes;
	__u64 generation;
	__u64 created_ns;
	__u64 map_address;
	__u32 uid;
	__u32 gid;
	__u32 mode;
	__u32 block_bytes;
	__u32 users; /* open files, mounted disks */
	__u32 flags; /* in: PM_FLAG_ */
	__u8 uuid[16];
	__u64 reserved[2];
};

#define PM_FLAG_MAY_MOVE 1 /* resize: where there is no room behind it */

#define PM_IOC_MAGIC 0xb7
#define PM_IOC_STATUS _IOR(PM_IOC_MAGIC, 1, struct pm_ioc_status)
/* The segment of a slot; -ENOENT where there is none. */
#define PM_IOC_GET _IOWR(PM_IOC_MAGIC, 2, struct pm_ioc_segment)
/* In: name, type, persist, bytes, mode, block_bytes, map_address. */
#define PM_IOC_CREATE _IOWR(PM_IOC_MAGIC, 3, struct pm_ioc_segment)
/* In: name. */
#define PM_IOC_DESTROY _IOW(PM_IOC_MAGIC, 4, struct pm_ioc_segment)
/* In: name, bytes, flags. */
#define PM_IOC_RESIZE _IOWR(PM_IOC_MAGIC, 5, struct pm_ioc_segment)
/* In: name; uid, gid, mode, map_address that it is to have. */
#define PM_IOC_CHANGE _IOW(PM_IOC_MAGIC, 6, struct pm_ioc_segment)
/* The region's size from the next boot on; 0 takes it back. */
#define PM_IOC_WISH _IOW(PM_IOC_MAGIC, 7, __u64)
/* Look at every copy again, repair; fills in the status. */
#define PM_IOC_SCRUB _IOR(PM_IOC_MAGIC, 8, struct pm_ioc_status)

/* In: slot, which is refused: what it held is lost, and it is free. */
#define PM_IOC_GIVE_UP _IOW(PM_IOC_MAGIC, 9, struct pm_ioc_segment)

struct pm_ioc_block_status {
	char name[PM_NAME_BYTES];
	__u64 blocks;
	__u64 places;
	__u64 free_places;
	__u64 bad_blocks;
	__u64 repaired;
	__u64 replayed; /* transactions that opening finished */
	__u64 mismatches;
	__u32 block_bytes;
	__u32 transaction_blocks; /* the most that one transaction may have */
	__u64 reserved[4];
};

struct pm_ioc_block {
	__u64 block;
	__u64 data; /* address; 0 in a write: the block becomes a hole */
};

struct pm_ioc_transfer {
	char name[PM_NAME_BYTES];
	__u64 io; /* address of an array of struct pm_ioc_block */
	__u32 count;
	__u32 reserved;
};

#define PMBC_IOC_STATUS _IOWR(PM_IOC_MAGIC, 32, struct pm_ioc_block_status)
/* All blocks are of one moment, and each was checked; else -EBADMSG. */
#define PMBC_IOC_READ _IOW(PM_IOC_MAGIC, 33, struct pm_ioc_transfer)
/* All blocks or none, durable on return. */
#define PMBC_IOC_WRITE _IOW(PM_IOC_MAGIC, 34, struct pm_ioc_transfer)
/* Look at every block; repairs what can be. */
#define PMBC_IOC_SCRUB _IOWR(PM_IOC_MAGIC, 35, struct pm_ioc_block_status)

struct pm_ioc_bad {
	char name[PM_NAME_BYTES];
	__u64 first;  /* in: the first block wanted */
	__u64 blocks; /* address of an array of __u64 */
	__u32 count;  /* in: of the array, at most PM_BAD_MAX; out: filled in */
	__u32 reserved;
};

#define PM_BAD_MAX 4096

struct pm_ioc_resize {
	char name[PM_NAME_BYTES];
	__u64 bytes;
	__u64 reserved;
};

/* Blocks that were found damaged since the segment was opened, in order. */
#define PMBC_IOC_BAD _IOWR(PM_IOC_MAGIC, 36, struct pm_ioc_bad)
/*
 * Another size, in another place, for its owner; -EBUSY where it has users.
 * -EFBIG: a block that was written has no place; -EBADMSG: one is damaged.
 */
#define PMBC_IOC_RESIZE _IOW(PM_IOC_MAGIC, 37, struct pm_ioc_resize)

/* @mode of a lock */
#define PM_LOCK_NONE 0 /* it is given back */
#define PM_LOCK_SHARED 1
#define PM_LOCK_EXCLUSIVE 2

#define PM_LOCK_AT_ONCE 1 /* -EAGAIN instead of waiting */

struct pm_ioc_lock {
	char name[PM_NAME_BYTES];
	__u32 mode;  /* PM_LOCK_ */
	__u32 flags; /* PM_LOCK_AT_ONCE */
};

/*
 * A lock of the segment, held by the open file until it gives it back or is
 * closed; of programs that ask for it only. First come, first served; readers share.
 */
#define PMBC_IOC_LOCK _IOW(PM_IOC_MAGIC, 38, struct pm_ioc_lock)

struct pm_ioc_disk {
	char name[PM_NAME_BYTES]; /* of the segment */
	char disk[24];		  /* out: of the disk, below /dev */
	__u32 flags;		  /* out: PM_HAS_DAX */
	__u32 reserved;
};

#define PMRAMD_IOC_ADD _IOWR(PM_IOC_MAGIC, 64, struct pm_ioc_disk)
#define PMRAMD_IOC_REMOVE _IOW(PM_IOC_MAGIC, 65, struct pm_ioc_disk)

#endif /* REM_PM_UAPI_H */
