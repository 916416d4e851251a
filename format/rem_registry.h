/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The registry: which pages of memory have what programs were told to be safe
 * (fsync) and no disk has yet. It is at the end of the NVRAM region, so that a boot
 * which does not enter an image finds these pages, too. Everything is
 * little-endian; reserved words are zero. @bytes is the head's.
 *
 *   region end - @bytes       512 for each file    struct rem_registry_file, two copies
 *     behind them              64 for each page    struct rem_registry_page
 *     before slot 0           @redo_bytes          the redo area (rem_redo.h)
 *   region end - 4096 - N * 4096   N * 4096         slot n: the content of page n
 *   region end - 4096             4096             struct rem_registry, rem_registry_policy
 *
 * While a kernel runs, a registered page lies where the page cache has it, and its
 * slot is free. A cold boot would use that memory: before it does, the loader copies
 * each page to its slot, flushes that, and stores @saved. Programs then write the
 * pages into their files, and the kernel clears the registry.
 *
 * A file's record is the copy with the higher @sequence of those whose checksum is
 * right. A page whose @id no record has was never acknowledged.
 *
 * By the cheaper policy what is acknowledged stays in CPU caches: then an entry and its
 * page may be older than what programs were told. A page that is not as its entry says
 * is lost, and each file may have lost more.
 */
#ifndef REM_REGISTRY_H
#define REM_REGISTRY_H

#include "rem_image.h"

/* "REMREGIS", "SAVED", "ICACHES", little-endian. */
#define REM_REGISTRY_MAGIC 0x53494745524d4552
#define REM_REGISTRY_SAVED 0x4445564153
#define REM_REGISTRY_IN_CACHES 0x53454843414349
#define REM_REGISTRY_VERSION 1
#define REM_REGISTRY_PAGE_BYTES 4096
#define REM_REGISTRY_FILES_MAX 65536
#define REM_REGISTRY_PAGES_MAX 16777216
#define REM_REGISTRY_COPIES 2
#define REM_REGISTRY_HANDLE_BYTES 128

/*
 * struct rem_registry - the head
 * @bytes: of the whole registry
 * @pages: N, how many it has room for
 * @files: how many files it has room for
 * @redo_bytes: of the redo area, whole pages; 0: there is none
 * @crc: CRC32C of the bytes before it
 */
struct rem_registry {
	rem_u64 magic;	      /*  0 REM_REGISTRY_MAGIC */
	rem_u32 version;      /*  8 REM_REGISTRY_VERSION */
	rem_u32 files;	      /* 12 */
	rem_u64 bytes;	      /* 16 */
	rem_u32 pages;	      /* 24 */
	rem_u32 reserved;     /* 28 */
	rem_u64 redo_bytes;   /* 32 */
	rem_u64 reserved2[2]; /* 40 */
	rem_u32 reserved3;    /* 56 */
	rem_u32 crc;	      /* 60 */
};

/*
 * struct rem_registry_policy - behind the head, in a cache line of its own
 * @in_caches: REM_REGISTRY_IN_CACHES while CPU caches may have what is acknowledged; one
 *	aligned store sets it
 */
struct rem_registry_policy {
	rem_u64 in_caches;   /* 0 */
	rem_u64 reserved[7]; /* 8 */
};

/*
 * struct rem_registry_file - a file that has registered pages
 * @id: names it in the pages; never used twice in one registry. 0: no file
 * @sequence: of this copy
 * @bytes: the file's size when it was acknowledged
 * @mtime_s: its time of modification then
 * @mtime_ns: and its nanoseconds
 * @mode: type and permissions
 * @uid: owner
 * @gid: group
 * @uuid: of the file system
 * @handle_type: of @handle
 * @handle_bytes: used of @handle
 * @handle: as name_to_handle_at() gives it; has the inode's number and generation
 * @inode: number of the inode, for messages
 * @crc: CRC32C of the bytes before it
 */
struct rem_registry_file {
	rem_u64 id;	      /*   0 */
	rem_u64 sequence;     /*   8 */
	rem_u64 bytes;	      /*  16 */
	rem_u64 mtime_s;      /*  24 */
	rem_u32 mtime_ns;     /*  32 */
	rem_u32 mode;	      /*  36 */
	rem_u32 uid;	      /*  40 */
	rem_u32 gid;	      /*  44 */
	rem_u8 uuid[16];      /*  48 */
	rem_u32 handle_type;  /*  64 */
	rem_u32 handle_bytes; /*  68 */
	rem_u8 handle[128];   /*  72 */
	rem_u64 inode;	      /* 200 */
	rem_u64 reserved[5];  /* 208 */
	rem_u32 reserved2;    /* 248 */
	rem_u32 crc;	      /* 252 */
};

/* Whether a page still is what was acknowledged. */
enum rem_registry_state {
	REM_PAGE_STEADY = 0x59445453, /* @content_crc is of its content */
	REM_PAGE_CHANGING =
		0x474e4843, /* a program may have stored to it since */
};

/*
 * struct rem_registry_page - one page of one file, in one cache line
 * @id: the file; 0: this entry is free
 * @index: of the page in the file
 * @phys: where it lies while the kernel runs
 * @crc: CRC32C of the bytes before it
 * @content_crc: CRC32C of the page when it was acknowledged
 * @content_state: enum rem_registry_state; one aligned store sets both
 * @saved: REM_REGISTRY_SAVED once the slot has the page
 */
struct rem_registry_page {
	rem_u64 id;	       /*  0 */
	rem_u64 index;	       /*  8 */
	rem_u64 phys;	       /* 16 */
	rem_u32 reserved;      /* 24 */
	rem_u32 crc;	       /* 28 */
	rem_u32 content_crc;   /* 32 */
	rem_u32 content_state; /* 36 */
	rem_u64 saved;	       /* 40 */
	rem_u64 reserved2[2];  /* 48 */
};

static_assert(sizeof(struct rem_registry) == 64);
static_assert(sizeof(struct rem_registry_policy) == 64);
static_assert(sizeof(struct rem_registry_file) == 256);
static_assert(offsetof(struct rem_registry_file, crc) == 252);
static_assert(sizeof(struct rem_registry_page) == 64);
static_assert(offsetof(struct rem_registry_page, content_crc) == 32);

#endif /* REM_REGISTRY_H */
