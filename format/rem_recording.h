/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A recording: everything that determines the content of media after a cut at any
 * place of one run of one QEMU process. It is a directory:
 *
 *   recording.bin   struct rem_rec_header, then events until the file ends
 *   base.media      NVRAM's media when the recording began: a raw file of
 *                   @nvram_bytes, sparse where it is zero
 *   machine.json    the machine (lab/machine/config.py), for users and replay
 *   disk-N.log      write log of disk N (QEMU's blklogwrites), if it has one
 *   disk-N.base     content of disk N when that log began
 *   console.log     console output of the machine: its promises to the world
 *
 * Media after the first k write-backs is base.media with the 64 bytes of each
 * of those REM_REC_WRITEBACK events stored at its line, in the order of the
 * file. Nothing else changes media, so a cut between two write-backs leaves the
 * same image as a cut at the first of them. A cut "at event n" keeps the events
 * before n.
 *
 * Where no domain covers the memory controller's queue (REM_REC_DOMAIN_NONE) a
 * line leaves the caches with REM_REC_ACCEPTED, and a fence waits for no more
 * than that. Its REM_REC_WRITEBACK follows when the controller has written it:
 * both come in the same order, each with the same line and bytes. In other
 * domains there is no REM_REC_ACCEPTED: what is accepted is on media.
 *
 * The coherent view, which CPUs and devices read, is recorded only inside windows:
 * it is media with each REM_REC_LINE, REM_REC_STORE and REM_REC_UNSEEN applied to
 * it. A line is dirty from the first of these until it is the same in the coherent
 * view and on media. A write-back whose bytes differ from the view reveals a
 * change without a recorded store, unless the line was stored to between its
 * REM_REC_FLUSH by CLWB or CLFLUSHOPT and the write-back: then it stays dirty.
 * Where lines are accepted first REM_REC_ACCEPTED reveals that, and the
 * write-back leaves the view as it is.
 * Other such changes are looked for, and are REM_REC_UNSEEN: before each
 * REM_REC_CACHE_ALL, when the machine reports that it stopped, and at the cut.
 * Outside windows stores are not recorded. After a window the view is unknown
 * until the next REM_REC_WINDOW begins, which is followed by a REM_REC_LINE for
 * every line that is dirty then. Write-backs are always recorded.
 *
 * A real cache may evict any dirty line at any moment, and a flushed line may
 * reach the persistence domain at once or with the next fence. So inside a window
 * each subset of the dirty lines, written to media with their content of that
 * moment, is another image that a cut at that place may leave. Accepted lines
 * are written in their order, at any speed: a content that came into being
 * after n lines had been accepted is on media only if these n are.
 *
 * The file is written in order, and the writer may be killed at any byte: readers
 * ignore an incomplete event at the end, and everything from a kind of zero on.
 * Every number is checked before use; a recording is not trusted more than a file
 * from the network.
 *
 * Use only what a simple parser can read (see rem_image.h).
 */
#ifndef REM_RECORDING_H
#define REM_RECORDING_H

#include <assert.h>
#include <stddef.h>
#include "rem_image.h"

/* "REMRECRD", little-endian */
#define REM_REC_MAGIC 0x44524345524d4552
#define REM_REC_VERSION 2
#define REM_REC_LINE_BYTES 64
#define REM_REC_PAYLOAD_MAX 80

/* The clock of the events. */
enum rem_rec_clock {
	REM_REC_CLOCK_NONE = 0,	 /* order only; every time is 0 */
	REM_REC_CLOCK_GUEST = 1, /* guest instructions, 1 ns each */
	REM_REC_CLOCK_MODEL = 2, /* the core model, of the event's vCPU */
};

/* The persistence domain. */
enum rem_rec_domain {
	REM_REC_DOMAIN_NONE = 0, /* media only */
	REM_REC_DOMAIN_ADR = 1,	 /* also the memory controller's queue */
	REM_REC_DOMAIN_EADR = 2, /* also CPU caches */
};

/*
 * struct rem_rec_header - the first bytes of recording.bin
 * @base_digest: sum mod 2^64 over all lines of base.media that are not all
 *	zeros of the first eight bytes of BLAKE3(line number u64, 64 bytes);
 *	0 = unknown
 * @profile: name of the cache profile, zero-padded
 * @crc: CRC32C of the bytes before it
 */
struct rem_rec_header {
	rem_u64 magic;	      /*   0 REM_REC_MAGIC */
	rem_u32 version;      /*   8 REM_REC_VERSION */
	rem_u32 header_bytes; /*  12 of this struct */
	rem_u32 line_bytes;   /*  16 REM_REC_LINE_BYTES */
	rem_u32 clock;	      /*  20 enum rem_rec_clock */
	rem_u64 nvram_phys;   /*  24 multiple of a page */
	rem_u64 nvram_bytes;  /*  32 multiple of a page */
	rem_u64 base_digest;  /*  40 */
	rem_u64 seed;	      /*  48 */
	rem_u32 cpu_count;    /*  56 */
	rem_u32 domain;	      /*  60 enum rem_rec_domain */
	rem_u8 profile[32];   /*  64 */
	rem_u64 reserved[3];  /*  96 */
	rem_u32 reserved2;    /* 120 */
	rem_u32 crc;	      /* 124 */
};

/*
 * struct rem_rec_event - head of each event
 *
 * @payload_bytes follow, and zeros up to the next multiple of 8; then the next
 * head. In the payloads below "line" and "address" are u64 physical addresses
 * inside NVRAM, lines a multiple of 64; "pc" is the u64 virtual address of the
 * instruction.
 */
struct rem_rec_event {
	rem_u8 kind;	       /* 0 enum rem_rec_kind */
	rem_u8 vcpu;	       /* 1 REM_REC_NO_VCPU = none */
	rem_u16 payload_bytes; /* 2 at most REM_REC_PAYLOAD_MAX */
	rem_u32 aux;	       /* 4 */
	rem_u64 time_ns;       /* 8 */
};

#define REM_REC_NO_VCPU 0xff

enum rem_rec_kind {
	/* {address, 1 to 64 bytes}, within one line; windows only.
	 * @aux = low half of pc, which is sign-extended (kernel
	 * and loader), or 0 (programs)
	 */
	REM_REC_STORE = 1,
	/* {line, 64 bytes}: media has these bytes from here on.
	 * @aux = enum rem_rec_cause
	 */
	REM_REC_WRITEBACK = 2,
	/* {line, pc}; @aux = enum rem_rec_cause. The write-back, if the line
	 * was dirty, is an event of its own: here or as late as the fence
	 */
	REM_REC_FLUSH = 3,
	/* {pc}; @aux = enum rem_rec_fence */
	REM_REC_FENCE = 4,
	/* {pc}; @aux = REM_REC_BY_WBINVD, REM_REC_BY_WBNOINVD or
	 * REM_REC_BY_INVD. Its write-backs follow. INVD has none: all lines in
	 * @vcpu's caches have the content of media from here on
	 */
	REM_REC_CACHE_ALL = 5,
	/* {line, 64 bytes}: the coherent view changed without a recorded store
	 * (DMA, page walk, interrupt frame)
	 */
	REM_REC_UNSEEN = 6,
	/* nothing; @aux = enum rem_rec_phase that begins */
	REM_REC_PHASE = 7,
	/* nothing; @aux = 1: PWR_OK is present from here on, 0: it dropped */
	REM_REC_PWR = 8,
	/* {bytes u64} of disk-@aux.log that had been written by now */
	REM_REC_DISK_LOG = 9,
	/* nothing; @aux = 1: a window begins, 0: it ends */
	REM_REC_WINDOW = 10,
	/* {line, 64 bytes}: dirty when the window began; follows it directly
	 */
	REM_REC_LINE = 11,
	/* nothing; power is lost; @aux = enum rem_plugin_cut */
	REM_REC_CUT = 12,
	/* nothing; regular end of the recording */
	REM_REC_END = 13,
	/* {bytes u64} of console.log that the world had seen by now: what the
	 * machine had printed there about its data is a promise
	 */
	REM_REC_CONSOLE = 14,
	/* {line, 64 bytes}: the memory controller has taken the line and will
	 * write it, unless power is cut; REM_REC_DOMAIN_NONE only.
	 * @aux = enum rem_rec_cause
	 */
	REM_REC_ACCEPTED = 15,
};

/* Why a line left the caches, or which instruction requested it. */
enum rem_rec_cause {
	REM_REC_BY_EVICTION = 1,
	REM_REC_BY_CLFLUSH = 2,
	REM_REC_BY_CLFLUSHOPT = 3,
	REM_REC_BY_CLWB = 4,
	REM_REC_BY_WBINVD = 5,
	REM_REC_BY_WBNOINVD = 6,
	REM_REC_BY_INVD = 7,
	REM_REC_BY_NT_STORE = 8, /* a store that bypasses the caches */
	REM_REC_BY_SWEEP =
		9, /* changes that the plugin cannot see, periodically */
	REM_REC_BY_DOMAIN =
		10, /* write-back of the persistence domain at a cut */
	REM_REC_BY_UNCACHED = 11, /* a store to uncached or device memory */
};

enum rem_rec_fence {
	REM_REC_SFENCE = 1,
	REM_REC_MFENCE = 2,
	REM_REC_LOCKED = 3, /* a locked instruction, or an XCHG */
	REM_REC_SERIAL = 4, /* CPUID, IRET, a write of CR3, ... */
};

/* Coarse phases; the timeline in the record block has the finer ones. */
enum rem_rec_phase {
	REM_REC_RUNNING = 1, /* programs run */
	REM_REC_STOP = 2,    /* from the power interrupt */
	REM_REC_STOPPED = 3, /* REM_PWR_STOPPED was sent */
	REM_REC_LOADER = 4,  /* from the first instruction after power on */
	REM_REC_GO = 5,	     /* from the loader's jump */
	REM_REC_COLD = 6,    /* a kernel that was not resumed, until it armed */
};

static_assert(sizeof(struct rem_rec_header) == 128);
static_assert(offsetof(struct rem_rec_header, nvram_phys) == 24);
static_assert(offsetof(struct rem_rec_header, base_digest) == 40);
static_assert(offsetof(struct rem_rec_header, profile) == 64);
static_assert(offsetof(struct rem_rec_header, crc) == 124);
static_assert(sizeof(struct rem_rec_event) == 16);
static_assert(offsetof(struct rem_rec_event, time_ns) == 8);

#endif /* REM_RECORDING_H */
