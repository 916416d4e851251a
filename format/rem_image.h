/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The image record: every byte of main memory that the boot loader reads, or
 * by which the loader and a kernel communicate.
 *
 * It is in a reserved block at the start of the NVRAM region. All offsets below
 * are from the start of that block; everything is little-endian; reserved words
 * are zero, and readers check that. No struct is valid if it is all zeros or all
 * ones. The comment of each checksum says what it covers; CRC32C is the
 * Castagnoli polynomial, reflected, initial value and final XOR 0xffffffff
 * (RFC 3720, appendix B.4).
 *
 *   offset     bytes    what                                      written by
 *   0x000000       64   struct rem_block: layout of this block    kernel
 *   0x001000        8   struct rem_word consumed                  loader, kernel
 *   0x002000        8   struct rem_word commit of slot 0          kernel, loader
 *   0x003000        8   struct rem_word commit of slot 1          kernel, loader
 *   0x004000     2048   struct rem_boot_note                      loader
 *   0x004800     2048   struct rem_trust                          loader
 *   0x005000    45056   machine description of this boot          loader
 *   0x010000    65536   body of slot 0 (struct rem_body)          kernel
 *   0x020000    65536   body of slot 1                            kernel
 *   0x030000    32768   timeline of slot 0 (struct rem_event)     kernel, loader
 *   0x038000    32768   timeline of slot 1                        kernel, loader
 *   0x040000   262144   reserved
 *   0x080000   524288   copies of the firmware's ACPI tables      loader
 *   0x100000    16384   loader's work area, free after hand-over  loader
 *   0x104000  1032192   RISC-V: the device tree, which the kernel
 *                       keeps                                     loader, kernel
 *
 * Slot = sequence mod 2; the slots hold successive Stops, never two copies of
 * one. See ARCHITECTURE.md for the protocol and INVARIANTS.md for its rules.
 * Every other range of NVRAM in use as main memory begins with a struct
 * rem_range_stamp, in a page that nothing else uses.
 *
 * This file is C for kernel, loader and host; Python derives its views from it
 * (lab/format.py), and golden bytes test both (format/golden). Use only plain
 * #define, enum and struct, without expressions that need a C parser.
 */
#ifndef REM_IMAGE_H
#define REM_IMAGE_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>
typedef u8 rem_u8;
typedef u16 rem_u16;
typedef u32 rem_u32;
typedef u64 rem_u64;
#else
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
typedef uint8_t rem_u8;
typedef uint16_t rem_u16;
typedef uint32_t rem_u32;
typedef uint64_t rem_u64;
#endif

#define REM_BLOCK_BYTES 0x200000
#define REM_BLOCK_ALIGN_BYTES 0x200000

#define REM_CONSUMED_OFFSET 0x1000
#define REM_COMMIT_OFFSET 0x2000
#define REM_COMMIT_STRIDE_BYTES 0x1000
#define REM_NOTE_OFFSET 0x4000
#define REM_TRUST_OFFSET 0x4800
#define REM_DESC_OFFSET 0x5000
#define REM_DESC_BYTES 0xb000
#define REM_BODY_OFFSET 0x10000
#define REM_BODY_STRIDE_BYTES 0x10000
#define REM_TIMELINE_OFFSET 0x30000
#define REM_TIMELINE_STRIDE_BYTES 0x8000
#define REM_ACPI_OFFSET 0x80000
#define REM_ACPI_BYTES 0x80000
#define REM_WORK_OFFSET 0x100000
#define REM_WORK_BYTES 0x4000
#define REM_TREE_OFFSET 0x104000
#define REM_TREE_BYTES 0xfc000

#define REM_SLOTS 2
#define REM_VERSION 2

/* "REMBLOCK", "REMIMAGE", "REMBNOTE", "REMDESCR", "REMHANDO", "REMRANGE",
 * "REMTRUST", "REMKEYPG", little-endian.
 */
#define REM_BLOCK_MAGIC 0x4b434f4c424d4552
#define REM_BODY_MAGIC 0x4547414d494d4552
#define REM_NOTE_MAGIC 0x45544f4e424d4552
#define REM_DESC_MAGIC 0x52435345444d4552
#define REM_HANDOVER_MAGIC 0x4f444e41484d4552
#define REM_RANGE_MAGIC 0x45474e41524d4552
#define REM_TRUST_MAGIC 0x54535552544d4552
#define REM_KEY_MAGIC 0x475059454b4d4552

/*
 * struct rem_block - marks a block with the layout above
 * @crc: CRC32C of the bytes before it
 *
 * A kernel that finds none formats the block and writes this last, after the
 * words are valid.
 */
struct rem_block {
	rem_u64 magic;	      /*  0 REM_BLOCK_MAGIC */
	rem_u32 version;      /*  8 REM_VERSION */
	rem_u32 block_bytes;  /* 12 REM_BLOCK_BYTES */
	rem_u64 region_bytes; /* 16 the whole NVRAM region, block included */
	rem_u64 reserved[4];  /* 24 */
	rem_u32 reserved2;    /* 56 */
	rem_u32 crc;	      /* 60 */
};

/*
 * struct rem_word - the eight bytes that decide, stored by one aligned store
 *
 * consumed: @check = CRC32C of {REM_WORD_CONSUMED u32, @sequence u32}.
 * commit:   @check = CRC32C of {REM_WORD_COMMIT u32, @sequence u32,
 *           CRC32C of the body u32}.
 *
 * Sequence 0 is never used. A commit word of eight zero bytes means "no image".
 * Any other word with a wrong check is damaged, and nothing is entered.
 */
struct rem_word {
	rem_u32 sequence; /* 0 */
	rem_u32 check;	  /* 4 */
};

#define REM_WORD_CONSUMED 0x534e4f43
#define REM_WORD_COMMIT 0x4d4d4f43
#define REM_SEQUENCE_LAST 0xffffffff

/* Parts of the machine description; types of struct rem_desc_entry. */
enum rem_desc_type {
	/* value = {CRC-32 at the end of the bzImage, its bytes, CRC32C of its
	 * version string}; key 0. Of an Image the first word is FNV-1a, by
	 * words, of all build ids in it, and two more words have their offsets,
	 * 32 bits each, 0 = none; without build ids, FNV-1a of the file
	 */
	REM_DESC_KERNEL = 1,
	/* value = {number of CPUs the firmware enables}; key 0 */
	REM_DESC_CPU_COUNT = 2,
	/* value = {APIC id or hart id, 1 for the CPU that boots}; key =
	 * position in the MADT or in the device tree
	 */
	REM_DESC_CPU = 3,
	/* value = {eax | ebx << 32, ecx | edx << 32, subleaf}, without the bits
	 * that identify a CPU or depend on CR4; key = leaf
	 */
	REM_DESC_CPUID = 4,
	/* value = {base, bytes, e820 type, count and nonce of the stamp of an
	 * NVRAM range that has one}; key = position. A range that begins with
	 * another block than the one in use has its magic as nonce, and so has
	 * a damaged stamp. First the ranges of NVRAM, which ascend and do not
	 * overlap; then all DRAM as one entry with base 0, which is compared
	 * with a tolerance of REM_DRAM_TOLERANCE_BYTES
	 */
	REM_DESC_MEMORY = 5,
	/* value = {vendor | device << 16 | class and revision << 32,
	 * subsystem vendor | subsystem device << 16 | header type << 32,
	 * log2 of BAR sizes, one byte for each from bit 0, 0 = none};
	 * key = bus << 8 | device << 3 | function
	 */
	REM_DESC_PCI = 6,
	/* value = {CRC32C with the checksum and all address fields zeroed,
	 * length}; key = signature
	 */
	REM_DESC_ACPI = 7,
	/* value = {512-byte sectors, serial in 24 bytes, zero-padded,
	 * REM_DISK_xxx}; key as for REM_DESC_PCI
	 */
	REM_DESC_DISK = 8,
	/* RISC-V. value = {CRC32C of what the device tree says that a hart can
	 * do}; key = hart id. And key ~0: value = {vendor, architecture,
	 * implementation of the harts, machine-mode firmware, its version}
	 */
	REM_DESC_ISA = 9,
	/* value = {CRC32C of firmware's device tree without /chosen, frequency
	 * of the time in Hz}; key 0
	 */
	REM_DESC_TREE = 10,
};

/* e820 types of memory in a description. */
#define REM_MEMORY_DRAM 1
#define REM_MEMORY_NVRAM 7

/* Ranges of NVRAM in a description; a machine with more makes no image. */
#define REM_RANGES_MAX 8

/* What firmware may reserve of DRAM at one boot and not at another. */
#define REM_DRAM_TOLERANCE_BYTES 0x1000000

/* The user has declared that the disk's write cache keeps its content. */
#define REM_DISK_PROTECTED 1

struct rem_desc_entry {
	rem_u16 type;	  /*  0 enum rem_desc_type */
	rem_u16 index;	  /*  2 numbers entries of equal type and key */
	rem_u32 key;	  /*  4 */
	rem_u64 value[5]; /*  8 unused words are zero */
};

/*
 * struct rem_desc - machine description, followed by @count entries
 * @crc: CRC32C of the entries
 */
struct rem_desc {
	rem_u64 magic; /*  0 REM_DESC_MAGIC */
	rem_u32 count; /*  8 */
	rem_u32 crc;   /* 12 */
};

#define REM_DESC_ENTRIES_MAX 512

/*
 * struct rem_range_stamp - which cold boot took a range of NVRAM into use
 * @crc: CRC32C of the bytes before it
 *
 * At the start of each range but the one with the block. Each cold boot stores a
 * new one in the ranges that its kernel may use, and it is part of the machine's
 * description: an image is not entered if a range was absent for a while and
 * another kernel used the rest. The range that is to have the block begins with one,
 * too, until the kernel has laid the block out.
 */
struct rem_range_stamp {
	rem_u64 magic;	     /*  0 REM_RANGE_MAGIC */
	rem_u32 version;     /*  8 REM_VERSION */
	rem_u32 count;	     /* 12 one more than any stamp that was found */
	rem_u64 nonce;	     /* 16 */
	rem_u64 reserved[4]; /* 24 */
	rem_u32 reserved2;   /* 56 */
	rem_u32 crc;	     /* 60 */
};

/* What the loader does with an image if the machine differs. */
enum rem_policy {
	REM_POLICY_COLD = 1, /* boots cold at once */
	/* looks again for hold_s seconds, then asks, and keeps the image until
	 * there is an answer
	 */
	REM_POLICY_HOLD = 2,
	/* the same, and boots cold if there is no answer in hold_s seconds */
	REM_POLICY_HOLD_COLD = 3,
};

#define REM_HOLD_MAX_S 3600

/* Why a Stop ran. */
enum rem_stop_reason {
	REM_STOP_POWER = 1,   /* PWR_OK dropped */
	REM_STOP_PLANNED = 2, /* requested by /sys/power or sysfs */
};

/* How a Stop ran. */
enum rem_stop_mode {
	REM_MODE_DPM = 1,  /* generic device power management */
	REM_MODE_FAST = 2, /* bounded: park, bus masters off, commit */
	REM_MODE_SNG = 3,  /* LightPC's: devices as dpm, CPUs as fast */
};

/*
 * struct rem_body - what a Stop leaves for the loader and the resumed kernel
 *
 * The body is @body_bytes long: this header, then @desc_count entries at
 * @desc_offset. @header_crc validates magic, version and size before the rest is
 * read; the commit word's CRC covers all @body_bytes.
 *
 * The loader enters @entry_phys in 64-bit mode, interrupts off, other CPUs
 * waiting for SIPI, with NVRAM and the first 4 GiB identity-mapped, rdi =
 * physical address of this body, rsi = that of the boot note. On RISC-V: in
 * supervisor mode, no translation, other harts stopped, a0 = hart id, a1 and a2
 * as rdi and rsi.
 */
struct rem_body {
	rem_u64 magic;	       /*   0 REM_BODY_MAGIC */
	rem_u32 version;       /*   8 REM_VERSION */
	rem_u32 body_bytes;    /*  12 multiple of 16, <= stride */
	rem_u32 sequence;      /*  16 as in the commit word */
	rem_u32 header_crc;    /*  20 CRC32C of bytes 0..19 */
	rem_u32 stop_reason;   /*  24 enum rem_stop_reason */
	rem_u32 stop_mode;     /*  28 enum rem_stop_mode */
	rem_u64 region_phys;   /*  32 the NVRAM range that the block is in */
	rem_u64 region_bytes;  /*  40 */
	rem_u64 entry_phys;    /*  48 resume entry, in a range of NVRAM */
	rem_u64 entry_cr3;     /*  56 page table the entry loads */
	rem_u64 context_phys;  /*  64 first CPU context (kernel's own layout) */
	rem_u32 context_bytes; /*  72 of each */
	rem_u32 cpu_count;     /*  76 */
	rem_u64 realtime_ns;   /*  80 CLOCK_REALTIME at the cut */
	rem_u64 boottime_ns;   /*  88 CLOCK_BOOTTIME at the cut */
	rem_u64 monotonic_ns;  /*  96 CLOCK_MONOTONIC at the cut */
	rem_u64 tsc;	       /* 104 at the cut */
	rem_u32 desc_offset;   /* 112 from the start of the body */
	rem_u32 desc_count;    /* 116 */
	rem_u64 stop_begin_tsc; /* 120 at the power interrupt */
	rem_u64 tsc_khz;	/* 128 */
	rem_u8 build_id[20];	/* 136 GNU build-id of the kernel, to print */
	rem_u32 policy;		/* 156 enum rem_policy */
	rem_u32 hold_s;		/* 160 <= REM_HOLD_MAX_S; 0 if not held */
	rem_u32 text_pages;	/* 164 of the kernel's text; 0: it has no sum */
	rem_u64 key_counter;	/* 168 of the key; 0: not authenticated */
	rem_u64 key_phys;	/* 176 struct rem_key; 0: not authenticated */
	rem_u64 key_id;		/* 184 as in struct rem_trust */
	rem_u64 measured;	/* 192 as in struct rem_trust */
	rem_u8 mac[32];	      /* 200 see rem_mac.h; zeros: not authenticated */
	rem_u64 text_phys;    /* 232 the kernel's text */
	rem_u64 text_counter; /* 240 as in struct rem_key */
	rem_u32 rodata_page;  /* 248 of read-only data, from text_phys on */
	rem_u32 rodata_pages; /* 252 */
};

/*
 * Pages of 4 KiB of text and read-only data, of which the MAC covers a sum
 * (rem_text.h). A kernel with more of them makes no image that is authenticated.
 */
#define REM_TEXT_PAGE_BYTES 4096
#define REM_TEXT_PAGES_MAX 0x10000

#define REM_BODY_HEADER_BYTES 256
#define REM_BODY_HEADER_CRC_BYTES 20

/* The loader's decision, and the reason. Names and numbers are stable. */
enum rem_boot_reason {
	REM_BOOT_RESUME = 1,
	/* none yet: the image waits for what differs, or for an answer */
	REM_BOOT_HOLD = 2,
	/* no NVRAM block here yet: the first boot on this memory */
	REM_COLD_NO_BLOCK = 16,
	/* a block of another layout */
	REM_COLD_BLOCK_VERSION = 17,
	/* the consumed word is all zeros or has a wrong check */
	REM_COLD_CONSUMED_INVALID = 18,
	/* no slot has a committed image: Stop did not run or did not finish */
	REM_COLD_NOT_COMMITTED = 19,
	/* the newest committed image has been entered before */
	REM_COLD_ALREADY_CONSUMED = 20,
	/* a commit word is not zero and does not match its slot and body */
	REM_COLD_COMMIT_DAMAGED = 21,
	REM_COLD_BODY_MAGIC = 22,
	REM_COLD_BODY_VERSION = 23,
	REM_COLD_BODY_SIZE = 24,
	REM_COLD_BODY_CRC = 25,
	/* a field points outside of its range, or has an impossible value */
	REM_COLD_BODY_FIELD = 26,
	/* the newest image was entered, or a Stop could not commit, and not all
	 * CPUs came back; only at the boot that follows
	 */
	REM_COLD_CPU_LOST = 27,
	/* the same, and a CPU has older microcode than it had */
	REM_COLD_MICROCODE = 28,
	/* the same, and a CPU's time stamp counter differs from the boot CPU's */
	REM_COLD_TSC = 29,
	/* the machine differs: one reason for each type of entry */
	REM_COLD_KERNEL_DIFFERS = 32,
	REM_COLD_CPU_DIFFERS = 33,
	REM_COLD_CPUID_DIFFERS = 34,
	REM_COLD_MEMORY_DIFFERS = 35,
	REM_COLD_PCI_DIFFERS = 36,
	REM_COLD_ACPI_DIFFERS = 37,
	REM_COLD_DISK_DIFFERS = 38,
	/* an entry has a type that this loader does not know */
	REM_COLD_MACHINE_UNKNOWN = 39,
	/* this machine has more parts than a description holds */
	REM_COLD_MACHINE_TOO_LARGE = 40,
	/* the image is authenticated, and the key is of another TPM, or of this
	 * one before it was cleared, or there is no TPM that can be used
	 */
	REM_COLD_TPM_DIFFERS = 41,
	/* the TPM has other measurements: of firmware, its settings or the
	 * loader, so that it does not give the image's key
	 */
	REM_COLD_MEASURED_DIFFERS = 42,
	REM_COLD_ISA_DIFFERS = 43,
	REM_COLD_TREE_DIFFERS = 44,
	/* a cold boot was requested */
	REM_COLD_ASKED = 48,
	/* the NVDIMM's flash is empty: the first boot, or power failed
	 * without a save
	 */
	REM_COLD_NVDIMM_EMPTY = 56,
	/* the NVDIMM's save was not completed for want of its own energy */
	REM_COLD_NVDIMM_PARTIAL = 57,
	/* the NVDIMM's controller failed to restore or to erase */
	REM_COLD_NVDIMM_FAILED = 58,
	/* only authenticated images are entered here, and this is none */
	REM_COLD_NOT_AUTHENTICATED = 64,
	/* the image was made before the last boot: memory is that of an earlier
	 * time
	 */
	REM_COLD_REPLAYED = 65,
	/* what was authenticated in Stop is not what is there */
	REM_COLD_FORGED = 66,
};

/*
 * struct rem_boot_note - the loader's decision, for the kernel and for users
 *
 * @expected is an entry of the image, @found one of this machine; an entry that
 * a side lacks is all zeros. @held: the difference because of which the loader
 * held the image, also if it was resumed then. @crc: CRC32C of bytes 0..@crc.
 */
struct rem_boot_note {
	rem_u64 magic;	  /*   0 REM_NOTE_MAGIC */
	rem_u32 version;  /*   8 REM_VERSION */
	rem_u32 reason;	  /*  12 enum rem_boot_reason */
	rem_u32 sequence; /*  16 of the image that was checked, 0 = none */
	rem_u32 slot;	  /*  20 */
	struct rem_desc_entry expected; /*  24 */
	struct rem_desc_entry found;	/*  72 */
	rem_u64 entry_tsc;		/* 120 loader's first instruction */
	rem_u64 ready_tsc;		/* 128 machine described */
	rem_u64 leave_tsc;		/* 136 just before the kernel's entry */
	rem_u32 charge;			/* 144 last status byte of the supply */
	rem_u32 nvdimm; /* 148 last status byte of its controller, 0 = none */
	rem_u32 held;	/* 152 enum rem_boot_reason, 0 = it did not */
	rem_u32 crc;	/* 156 */
};

/* Whether images are authenticated. */
enum rem_trust_state {
	REM_TRUST_OFF =
		1, /* there is no TPM that can be used, nor Secure Boot */
	REM_TRUST_ON = 2, /* and the loader enters no other */
	/* there is no key, and no image is entered: Secure Boot without a TPM
	 * that can be used, or one that has failed at this boot
	 */
	REM_TRUST_NO_KEY = 3,
};

/*
 * struct rem_trust - how the images of this boot are authenticated
 * @key_counter: of the TPM's counter; each boot has its own, and its own key
 * @key_id: names what all keys of this TPM, with these measurements, derive from
 * @measured: first bytes of the policy by which the TPM gives them
 * @tpm_ticks: of the TSC, that the loader has waited for the TPM
 * @crc: CRC32C of the bytes before it
 *
 * There is no key here: it is in a page of DRAM, and nowhere in NVRAM.
 */
struct rem_trust {
	rem_u64 magic;	     /*  0 REM_TRUST_MAGIC */
	rem_u32 version;     /*  8 REM_VERSION */
	rem_u32 state;	     /* 12 enum rem_trust_state */
	rem_u64 key_counter; /* 16 */
	rem_u64 key_phys;    /* 24 struct rem_key, in a page that is reserved */
	rem_u64 key_id;	     /* 32 */
	rem_u64 measured;    /* 40 */
	rem_u64 tpm_ticks;   /* 48 */
	rem_u32 reserved;    /* 56 */
	rem_u32 crc;	     /* 60 */
};

/*
 * struct rem_key - the start of a page of DRAM, which the kernel uses the rest of
 * @text_counter: the count of the boot in which the kernel was loaded
 * @text_sum: of text and read-only data (rem_text.h), as the loader has checked it;
 *	zeros if the kernel is loaded. From then on the kernel's own.
 *
 * From the loader to the kernel, which authenticates the image of the next Stop by
 * it. What depends on the key stays in this page. It does not survive the power.
 */
struct rem_key {
	rem_u64 magic;	      /*  0 REM_KEY_MAGIC */
	rem_u64 key_counter;  /*  8 as in struct rem_trust */
	rem_u8 key[32];	      /* 16 */
	rem_u64 text_counter; /* 48 */
	rem_u64 text_key[66]; /* 56 by which text and data are summed up */
	rem_u64 text_sum[3];  /* 584 */
};

#define REM_KEY_BYTES 32
#define REM_TEXT_KEY_WORDS 66
#define REM_KEY_PAGE_BYTES 4096

/*
 * struct rem_handover - payload of the setup_data node (type REM_SETUP_DATA)
 * by which a loader passes the address of the block to a kernel
 */
struct rem_handover {
	rem_u64 magic;	      /*  0 REM_HANDOVER_MAGIC */
	rem_u32 version;      /*  8 REM_VERSION */
	rem_u32 reserved;     /* 12 */
	rem_u64 region_phys;  /* 16 the block is at its start */
	rem_u64 region_bytes; /* 24 */
};

/* setup_data type of Linux' x86 boot protocol, in its unassigned space. */
#define REM_SETUP_DATA 0x4d4552

/* Events of the timeline: of Stop, of the loader, of Go. */
enum rem_event_type {
	REM_EVENT_STOP_BEGIN = 1,     /* power interrupt; value = reason */
	REM_EVENT_STOP_FREEZE = 2,    /* dpm: tasks frozen */
	REM_EVENT_STOP_DEVICES = 3,   /* devices stopped; value = number */
	REM_EVENT_STOP_PARKED = 4,    /* all other CPUs parked and flushed */
	REM_EVENT_STOP_CPU_SAVED = 5, /* this CPU's context is in NVRAM */
	REM_EVENT_STOP_SYSCORE = 6, /* clocks and interrupt controllers saved */
	REM_EVENT_STOP_BODY = 7,    /* body complete */
	REM_EVENT_STOP_FAILED = 8,  /* refused; value = errno */
	REM_EVENT_STOP_DRAM = 9,    /* pages of DRAM are home; value = number */
	REM_EVENT_LOADER_BEGIN = 32,
	REM_EVENT_LOADER_MACHINE = 33,	/* machine described */
	REM_EVENT_LOADER_VERIFIED = 34, /* record verified; value = reason */
	REM_EVENT_LOADER_CONSUMED = 35, /* the consumed word is durable */
	REM_EVENT_GO_BEGIN = 64,	/* first C code of the resumed kernel */
	REM_EVENT_GO_CPU = 65,		/* this CPU runs again */
	REM_EVENT_GO_SYSCORE = 66, /* clocks and interrupt controllers run */
	REM_EVENT_GO_DEVICE =
		67, /* one device runs; value = its bdf | errno << 32 */
	REM_EVENT_GO_DEVICES = 68, /* all devices run; value = number */
	REM_EVENT_GO_CPUS = 69,	   /* all CPUs run */
	REM_EVENT_GO_ENTROPY = 70, /* reseeded */
	REM_EVENT_GO_DONE = 71,	   /* programs run */
	/* a CPU did not start, and the machine was reset; value = its number
	 * and, after the next boot, REM_EVENT_REPORTED
	 */
	REM_EVENT_GO_CPU_LOST = 72,
	/* a CPU has older microcode, and the machine was reset; value = the
	 * same
	 */
	REM_EVENT_GO_MICROCODE = 73,
	/* a CPU's time stamp counter differs from the boot CPU's, and the
	 * machine was reset; value = the same
	 */
	REM_EVENT_GO_TSC = 74,
	REM_EVENT_GO_DRAM = 75, /* pages are in DRAM again; value = number */
};

/*
 * struct rem_event - one entry of a slot's timeline
 * @crc: CRC32C of bytes 0..27
 *
 * The n-th area of a timeline begins at event REM_EVENTS_xxx. Entries with another
 * sequence or a wrong checksum are ignored. No decision depends on the timeline.
 *
 * What comes after a Stop that could not commit is in that Stop's area, too: there
 * is no loader and no Go.
 */
struct rem_event {
	rem_u32 sequence; /*  0 of the Stop it belongs to */
	rem_u16 type;	  /*  4 enum rem_event_type */
	rem_u16 cpu;	  /*  6 */
	rem_u64 tsc;	  /*  8 */
	rem_u64 value;	  /* 16 */
	rem_u32 reserved; /* 24 */
	rem_u32 crc;	  /* 28 */
};

/* In the value of an event because of which the machine was reset. */
#define REM_EVENT_REPORTED 0x100000000

#define REM_EVENTS_STOP 0
#define REM_EVENTS_LOADER 480
#define REM_EVENTS_GO 512
#define REM_EVENTS_MAX 1024

static_assert(sizeof(struct rem_block) == 64);
static_assert(offsetof(struct rem_block, crc) == 60);
static_assert(sizeof(struct rem_word) == 8);
static_assert(sizeof(struct rem_desc_entry) == 48);
static_assert(sizeof(struct rem_desc) == 16);
static_assert(sizeof(struct rem_body) == REM_BODY_HEADER_BYTES);
static_assert(offsetof(struct rem_body, header_crc) ==
	      REM_BODY_HEADER_CRC_BYTES);
static_assert(offsetof(struct rem_body, entry_phys) == 48);
static_assert(offsetof(struct rem_body, realtime_ns) == 80);
static_assert(offsetof(struct rem_body, desc_offset) == 112);
static_assert(offsetof(struct rem_body, build_id) == 136);
static_assert(offsetof(struct rem_body, policy) == 156);
static_assert(offsetof(struct rem_body, mac) == 200);
static_assert(offsetof(struct rem_body, text_phys) == 232);
static_assert(offsetof(struct rem_body, rodata_pages) == 252);
static_assert(sizeof(struct rem_range_stamp) == 64);
static_assert(offsetof(struct rem_range_stamp, crc) == 60);
static_assert(sizeof(struct rem_boot_note) == 160);
static_assert(offsetof(struct rem_boot_note, crc) == 156);
static_assert(sizeof(struct rem_trust) == 64);
static_assert(offsetof(struct rem_trust, crc) == 60);
static_assert(sizeof(struct rem_key) == 608);
static_assert(offsetof(struct rem_key, text_sum) == 584);
static_assert(sizeof(struct rem_handover) == 32);
static_assert(sizeof(struct rem_event) == 32);
static_assert(REM_EVENTS_MAX * sizeof(struct rem_event) ==
	      REM_TIMELINE_STRIDE_BYTES);
static_assert(sizeof(struct rem_desc) +
		      REM_DESC_ENTRIES_MAX * sizeof(struct rem_desc_entry) <=
	      REM_DESC_BYTES);
static_assert(REM_BODY_HEADER_BYTES +
		      REM_DESC_ENTRIES_MAX * sizeof(struct rem_desc_entry) <=
	      REM_BODY_STRIDE_BYTES);

#endif /* REM_IMAGE_H */
