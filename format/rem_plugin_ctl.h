/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The control file of the QEMU plugin: three pages that both the plugin and the
 * laboratory map. It is not media, but it survives the QEMU process: the
 * plugin reports a cut that it makes there.
 *
 *   offset   bytes   what                                        written by
 *   0x0000      32   jobs and limits of this plugin              plugin
 *   0x0020      48   one command at a time                       lab
 *   0x0050      48   the answer, and whether the process was cut plugin
 *   0x0080    1056   snapshot by REM_PLUGIN_READ                 plugin
 *   0x04a0    1056   snapshot at the cut                         plugin
 *   0x08c0    8704   eight marks                                 plugin
 *   0x2ac0     808   ends of turns during a hold-up              plugin
 *   0x2de8     128   counters of the caches                      plugin
 *   0x2e68     144   counters of the memory controller           plugin
 *
 * A command: the laboratory writes command and arguments, increments @request and
 * wakes a futex on it; the plugin executes the command and sets @done to
 * @request. All numbers are little-endian. Instructions are counted for each
 * vCPU from the start of the process. An instruction counts when it begins: one
 * that faults counts again when it is retried, and under icount each repetition
 * of a REP string instruction counts. With caches, instructions are counted
 * exactly only while a cut is armed, otherwise by blocks.
 *
 * Use only what a simple parser can read (see rem_image.h).
 */
#ifndef REM_PLUGIN_CTL_H
#define REM_PLUGIN_CTL_H

#include <assert.h>
#include <stddef.h>
#include "rem_image.h"

/* "REMPLUGN", little-endian */
#define REM_PLUGIN_MAGIC 0x4e47554c504d4552
#define REM_PLUGIN_VERSION 6
#define REM_PLUGIN_CTL_BYTES 12288
#define REM_PLUGIN_CPUS_MAX 64
#define REM_PLUGIN_MARKS_MAX 8
#define REM_PLUGIN_TURNS_MAX 50
/* Records of one trace: 512 MiB of the plugin's memory. */
#define REM_PLUGIN_TRACE_RECORDS_MAX 67108864

/* No vCPU, no budget, unknown. */
#define REM_PLUGIN_NONE 0xffffffffffffffff

/* The plugin's jobs, from QEMU's command line: bits of @jobs. */
#define REM_PLUGIN_JOB_COUNT 1
#define REM_PLUGIN_JOB_CUT 2
#define REM_PLUGIN_JOB_CACHE 4

enum rem_plugin_command {
	/* copy all counts to @now; exact when the VM is stopped */
	REM_PLUGIN_READ = 1,
	/* disarm any cut; marks are kept */
	REM_PLUGIN_DISARM = 2,
	/* argument {vCPU, n}: kill the process when that vCPU has begun n more
	 * instructions and is about to begin the next one
	 */
	REM_PLUGIN_ARM_CUT = 3,
	/* argument {mark, n}: the same, counted on the vCPU that reaches the
	 * mark next, from there on; n = 0 kills before the marked instruction
	 */
	REM_PLUGIN_ARM_CUT_AT = 4,
	/* argument {ns}: kill the process after that much time: the largest
	 * clock of any vCPU (instructions times cycle, and waiting for memory)
	 * plus the time in which all were halted; icount only
	 */
	REM_PLUGIN_ARM_HOLD_UP = 5,
	/* reset all marks to "not reached" */
	REM_PLUGIN_RESET_MARKS = 6,
	/* power fails now: the persistence domain is written back, the process
	 * is killed, and @done is not set
	 */
	REM_PLUGIN_POWER_CUT = 7,
	/* argument {enum rem_plugin_honour}: which flushes have an effect */
	REM_PLUGIN_HONOUR = 8,
	/* argument {n}: kill the process right after the n-th store to NVRAM
	 * from here; 0 disarms that
	 */
	REM_PLUGIN_ARM_STORE = 9,
	/* argument {1 or 0}: a window of the recording begins or ends */
	REM_PLUGIN_WINDOW = 10,
	/* argument {n}: trace memory requests from here on, up to n records
	 * (rem_trace.h); 0 ends the trace. The file appears when complete
	 */
	REM_PLUGIN_TRACE = 11,
};

enum rem_plugin_error {
	REM_PLUGIN_OK = 0,
	REM_PLUGIN_BAD_COMMAND = 1,
	REM_PLUGIN_BAD_ARGUMENT = 2,
	/* the job that this needs is off: see @jobs */
	REM_PLUGIN_JOB_OFF = 3,
	/* counters can be set only while the VM is stopped */
	REM_PLUGIN_RUNNING = 4,
	/* needs -icount shift=0 and the icount clock of this QEMU */
	REM_PLUGIN_NO_ICOUNT = 5,
};

/* Which flushes have an effect; for proofs that missing ones are detected. */
enum rem_plugin_honour {
	REM_PLUGIN_HONOUR_ALL = 0,
	/* those of the record block; a WBINVD writes nothing else */
	REM_PLUGIN_HONOUR_BLOCK = 1,
	REM_PLUGIN_HONOUR_NOTHING = 2,
	/* all, except WBINVD on vCPUs other than the first */
	REM_PLUGIN_HONOUR_FIRST = 3,
	/* all, but WBINVD acts like INVD */
	REM_PLUGIN_HONOUR_INVD = 4,
};

enum rem_plugin_mark_kind {
	REM_PLUGIN_MARK_UNUSED = 0,
	/* about to execute at virtual address @value */
	REM_PLUGIN_MARK_PC = 1,
	/* about to execute OUT DX, AL; @value = port | byte << 16 */
	REM_PLUGIN_MARK_OUT = 2,
	/* about to execute the first instruction of a block at CPL 3 */
	REM_PLUGIN_MARK_USER = 3,
};

/*
 * struct rem_plugin_snapshot - the counters at one moment
 * @taken: 1 = the rest is valid; 0 = never taken; 2 = being written
 * @cpu: the vCPU whose instruction made it, or REM_PLUGIN_NONE
 * @halted_ns: guest time in which all vCPUs were halted, since the start of
 *             the process; REM_PLUGIN_NONE without icount
 * @cycle_ps: duration of an instruction
 */
struct rem_plugin_snapshot {
	rem_u64 taken;	       /*   0 */
	rem_u64 cpu;	       /*   8 */
	rem_u64 halted_ns;     /*  16 */
	rem_u64 cycle_ps;      /*  24 */
	rem_u64 count[64];     /*  32 begun instructions of each vCPU */
	rem_u64 waited_ns[64]; /* 544 for memory, by the model of caches */
};

/*
 * struct rem_plugin_mark - a place in the guest's execution
 * @cut_after: REM_PLUGIN_NONE, or the number of instructions from mark to cut
 * @first: when it was first reached since the last REM_PLUGIN_RESET_MARKS
 */
struct rem_plugin_mark {
	rem_u64 kind;			  /*   0 enum rem_plugin_mark_kind */
	rem_u64 value;			  /*   8 */
	rem_u64 cut_after;		  /*  16 */
	rem_u64 reserved;		  /*  24 */
	struct rem_plugin_snapshot first; /*  32 */
};

/*
 * struct rem_plugin_turn - where a vCPU was at the end of its turn (quantum=)
 * @address: of its next instruction, in the kernel's half
 * @cpu: the vCPU
 */
struct rem_plugin_turn {
	rem_u64 address; /*   0 */
	rem_u64 cpu;	 /*   8 */
};

/* What ended the process. */
enum rem_plugin_cut {
	REM_PLUGIN_NOT_CUT = 0,
	REM_PLUGIN_CUT_COUNT = 1,
	REM_PLUGIN_CUT_HOLD_UP = 2,
	REM_PLUGIN_CUT_SUPPLY = 3,
	REM_PLUGIN_CUT_STORE = 4,
};

/*
 * struct rem_plugin_cache - counters of the caches since the process began
 * @taken: 1 = the rest is that of the last READ, the last port mark, or the cut
 * @differ_lines: lines that differ between media and the coherent view: lost if
 *                power fails now
 * @lost_lines: those of them that a flush without effect should have written,
 *              and that were not stored to since
 * @digest_due: sum over the lines of such flushes, with their content then
 * @digest_media: the same lines on media. Equal: nothing is lost
 */
struct rem_plugin_cache {
	rem_u64 taken;		    /*   0 */
	rem_u64 stores;		    /*   8 to NVRAM while something was armed */
	rem_u64 first_level_misses; /*  16 */
	rem_u64 memory_reads;	    /*  24 */
	rem_u64 write_backs;	    /*  32 */
	rem_u64 evictions;	    /*  40 */
	rem_u64 swept;		    /*  48 */
	rem_u64 unseen;		    /*  56 flushed without a recorded store */
	rem_u64 dirty_lines;	    /*  64 */
	rem_u64 differ_lines;	    /*  72 */
	rem_u64 lost_lines;	    /*  80 */
	rem_u64 digest_due;	    /*  88 */
	rem_u64 digest_media;	    /*  96 */
	rem_u64 reverted_lines;	    /* 104 by INVD */
	rem_u64 cpu_loads;	    /* 112 by cores, where loads are modelled */
	rem_u64 cpu_stores;   /* 120 by cores, those past the caches left out */
	rem_u64 store_misses; /* 128 of first_level_misses */
	rem_u64 fetch_misses; /* 136 of instructions, with a controller; not of these */
};

/*
 * struct rem_plugin_memory - a memory controller since the process began
 * @taken: 1 = the rest is that of the last READ with the VM stopped, the last
 *         port mark, or the cut; never without a controller
 * @guest_ns: guest time, as the guest's clock shows it
 * @read_ns: sum over all reads, from the request to the data
 * @write_ns: sum over all writes, until the controller has taken them
 *
 * Energy is that of the memory until its last request.
 */
struct rem_plugin_memory {
	rem_u64 taken;	       /*   0 */
	rem_u64 guest_ns;      /*   8 */
	rem_u64 reads;	       /*  16 */
	rem_u64 writes;	       /*  24 */
	rem_u64 read_ns;       /*  32 */
	rem_u64 write_ns;      /*  40 */
	rem_u64 row_reads;     /*  48 met an open row or page */
	rem_u64 row_writes;    /*  56 */
	rem_u64 rebuilt_reads; /*  64 from the other half and the code */
	rem_u64 blocked_reads; /*  72 waited for a device busy with a write */
	rem_u64 array_writes;  /*  80 for the host */
	rem_u64 extra_writes;  /*  88 for wear levelling */
	rem_u64 background_pj; /*  96 */
	rem_u64 refresh_pj;    /* 104 */
	rem_u64 activate_pj;   /* 112 */
	rem_u64 read_pj;       /* 120 */
	rem_u64 write_pj;      /* 128 */
	rem_u64 reserved;      /* 136 */
};

struct rem_plugin_ctl {
	rem_u64 magic;	     /*   0 REM_PLUGIN_MAGIC, written last */
	rem_u32 version;     /*   8 REM_PLUGIN_VERSION */
	rem_u32 cpu_count;   /*  12 */
	rem_u32 jobs;	     /*  16 REM_PLUGIN_JOB_xxx */
	rem_u32 icount;	     /*  20 1: halted time is known */
	rem_u32 mark_count;  /*  24 */
	rem_u32 pid;	     /*  28 of the QEMU process */
	rem_u32 request;     /*  32 */
	rem_u32 command;     /*  36 enum rem_plugin_command */
	rem_u64 argument[2]; /*  40 */
	rem_u64 reserved[3]; /*  56 */
	rem_u32 done;	     /*  80 */
	rem_u32 error;	     /*  84 enum rem_plugin_error of the last command */
	rem_u32 cut;	     /*  88 enum rem_plugin_cut */
	rem_u32 reserved2;   /*  92 */
	rem_u64 reserved3[4];		   /*  96 */
	struct rem_plugin_snapshot now;	   /* 128 */
	struct rem_plugin_snapshot at_cut; /* 1184 */
	struct rem_plugin_mark marks[8];   /* 2240 */
	/* turns that ended in the kernel since REM_PLUGIN_ARM_HOLD_UP: their
	 * number, and the first ones
	 */
	rem_u64 turn_count;		  /* 10944 */
	struct rem_plugin_turn turns[50]; /* 10952 */
	struct rem_plugin_cache cache;	  /* 11752 */
	struct rem_plugin_memory memory;  /* 11896 */
};

static_assert(sizeof(struct rem_plugin_snapshot) == 1056);
static_assert(offsetof(struct rem_plugin_snapshot, count) == 32);
static_assert(offsetof(struct rem_plugin_snapshot, waited_ns) == 544);
static_assert(sizeof(struct rem_plugin_mark) == 1088);
static_assert(offsetof(struct rem_plugin_mark, first) == 32);
static_assert(sizeof(struct rem_plugin_turn) == 16);
static_assert(sizeof(struct rem_plugin_cache) == 144);
static_assert(offsetof(struct rem_plugin_ctl, request) == 32);
static_assert(offsetof(struct rem_plugin_ctl, argument) == 40);
static_assert(offsetof(struct rem_plugin_ctl, done) == 80);
static_assert(offsetof(struct rem_plugin_ctl, cut) == 88);
static_assert(offsetof(struct rem_plugin_ctl, now) == 128);
static_assert(offsetof(struct rem_plugin_ctl, at_cut) == 1184);
static_assert(offsetof(struct rem_plugin_ctl, marks) == 2240);
static_assert(offsetof(struct rem_plugin_ctl, turns) == 10952);
static_assert(offsetof(struct rem_plugin_ctl, cache) == 11752);
static_assert(sizeof(struct rem_plugin_memory) == 144);
static_assert(offsetof(struct rem_plugin_ctl, memory) == 11896);
static_assert(sizeof(struct rem_plugin_ctl) == 12040);

#endif /* REM_PLUGIN_CTL_H */
