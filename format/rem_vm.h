/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The record of one virtual machine that outlives its host's power: a file in
 * non-volatile memory or on a disk, beside the guest's memory and two files of
 * device state. Everything is little-endian; reserved words are zero.
 *
 *   0x0000       64   struct rem_vm_header
 *   0x1000        8   struct rem_word consumed     (rem_image.h)
 *   0x2000        8   struct rem_word commit of slot 0
 *   0x3000        8   struct rem_word commit of slot 1
 *   0x4000      128   struct rem_vm_body of slot 0
 *   0x5000      128   struct rem_vm_body of slot 1
 *
 * Slots are used in turn (slot = sequence mod 2), and each has its own file of
 * device state. Words have the meaning and the checks of rem_image.h: only a
 * committed sequence above the consumed one may be entered, once. A damaged word
 * refuses both images. Each part lies in a block of its own, so that a torn write
 * of one never damages another.
 *
 * The guest's memory is a file of @ram_bytes, followed by one struct rem_vm_tail.
 * Its id is new at each cold boot: an image belongs to one content of memory.
 */
#ifndef REM_VM_H
#define REM_VM_H

#include "rem_image.h"

#define REM_VM_MAGIC 0x313030304d56454d /* "MEVM0001" */
#define REM_VM_VERSION 1
#define REM_VM_BYTES 0x6000
#define REM_VM_CONSUMED_OFFSET 0x1000
#define REM_VM_COMMIT_OFFSET 0x2000
#define REM_VM_BODY_OFFSET 0x4000
#define REM_VM_SLOT_BYTES 0x1000
#define REM_VM_ID_BYTES 16
#define REM_VM_DIGEST_BYTES 32

/*
 * struct rem_vm_header - marks a record with the layout above
 * @crc: CRC32C of the bytes before it; written last
 */
struct rem_vm_header {
	rem_u64 magic;	     /*  0 REM_VM_MAGIC */
	rem_u32 version;     /*  8 REM_VM_VERSION */
	rem_u32 bytes;	     /* 12 REM_VM_BYTES */
	rem_u64 reserved[5]; /* 16 */
	rem_u32 reserved2;   /* 56 */
	rem_u32 crc;	     /* 60 */
};

/*
 * struct rem_vm_body - what a committed image consists of
 * @machine: SHA-256 of the guest's description: QEMU, its arguments, memory, disks
 * @state_crc: CRC32C of the file of device state
 * @save_ns: from the drop of PWR_OK until the commit began, by the host's clock
 *
 * The commit word's CRC covers all of it.
 */
struct rem_vm_body {
	rem_u32 sequence;    /*   0 as in the commit word */
	rem_u32 state_crc;   /*   4 */
	rem_u64 state_bytes; /*   8 */
	rem_u64 ram_bytes;   /*  16 */
	rem_u64 saved_s;     /*  24 seconds since 1970, UTC */
	rem_u64 save_ns;     /*  32 */
	rem_u8 ram_id[16];   /*  40 */
	rem_u8 machine[32];  /*  56 */
	rem_u64 reserved[5]; /*  88 */
};

/*
 * struct rem_vm_tail - behind the guest's memory, in the same file
 * @crc: CRC32C of the bytes before it
 */
struct rem_vm_tail {
	rem_u64 magic;	     /*  0 REM_VM_MAGIC */
	rem_u64 ram_bytes;   /*  8 */
	rem_u8 id[16];	     /* 16 random */
	rem_u64 reserved[3]; /* 32 */
	rem_u32 reserved2;   /* 56 */
	rem_u32 crc;	     /* 60 */
};

static_assert(sizeof(struct rem_vm_header) == 64);
static_assert(sizeof(struct rem_vm_body) == 128);
static_assert(sizeof(struct rem_vm_tail) == 64);

#endif /* REM_VM_H */
