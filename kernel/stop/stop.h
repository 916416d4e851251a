/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the stages of the kernel side share: the state of the machine's
 * persistence, the CPU context, and the few calls between stop/ and resume/.
 */
#ifndef REM_STOP_H
#define REM_STOP_H

/* Offsets in struct rem_context for the assembly; checked in context.c. */
#define REM_CTX_RSP 0
#define REM_CTX_CR0 8
#define REM_CTX_CR3 16
#define REM_CTX_CR4 24
#define REM_CTX_EFER 32
#define REM_CTX_GS_BASE 40
#define REM_CTX_GDT 48
#define REM_CTX_IDT 64

/* Offset in struct rem_body, for the assembly. */
#define REM_BODY_ENTRY_CR3 56

#ifndef __ASSEMBLY__

#include <linux/cache.h>
#include <linux/percpu.h>
#include <linux/remanence/rem_image.h>
#include <linux/types.h>
#include <asm/desc_defs.h>
#include <asm/irqflags.h>

struct gendisk;

/* Why Stop is not possible now; shown in sysfs, tested by name. */
enum rem_state {
	REM_OFF,		/* no loader handed over an NVRAM block */
	REM_ARMED,
	REM_STOPPING,
	REM_REFUSED,		/* see rem.why */
};

#define REM_CTX_MSRS 24

struct rem_saved_msr {
	u32 index;
	u32 valid;
	u64 value;
};

/**
 * struct rem_context - what of one CPU is volatile and not kept elsewhere
 *
 * The user's FPU state, FS/GS and debug registers are not here: the switch to
 * the thread that saves the context has stored them with their task. General
 * registers are on the stack that @rsp points to.
 */
struct rem_context {
	u64 rsp;
	u64 cr0;
	u64 cr3;
	u64 cr4;
	u64 efer;
	u64 gs_base;
	struct desc_ptr gdt;
	u8 pad[6];
	struct desc_ptr idt;
	u8 pad2[6];
	u64 cr2;
	u64 fs_base;
	u64 user_gs_base;
	u16 ds;
	u16 es;
	u16 fs;
	u16 gs;
	u32 cpu;
	u32 msr_count;
	struct rem_saved_msr msr[REM_CTX_MSRS];
} ____cacheline_aligned;

extern struct rem_context rem_contexts[NR_CPUS];
DECLARE_PER_CPU(struct rem_context *, rem_this_context);

/**
 * struct rem_machine - all state of Stop-and-Go, in one place
 * @state: enum rem_state
 * @why: one line that says why Stop is refused, for people
 * @blocker: the device that keeps the machine on stop=dpm, or NULL
 * @block: the record block, mapped write-back
 * @sequence: of the next Stop
 * @stop_mode: enum rem_stop_mode that the next Stop uses
 * @running_mode: enum rem_stop_mode of the Stop that is under way
 * @resumes: images entered since the cold boot
 */
struct rem_machine {
	int state;
	const char *why;
	const char *blocker;
	u8 *block;
	u64 region_phys;
	u64 region_bytes;
	u32 sequence;
	u32 stop_mode;
	u32 running_mode;
	u32 resumes;
	u32 stop_reason;
	u64 stop_begin_tsc;
	int last_error;
};

extern struct rem_machine rem;

/* The end of a CPU's Stop: only a start by INIT or by power ends it. */
static inline void __noreturn rem_halt(void)
{
	for (;;) {
		native_irq_disable();
		native_halt();
	}
}

/* core.c */
bool rem_stop_begin(u32 reason);
void rem_stop_end(int err);
void rem_went(void);
void rem_thread_wake(void);

/* context_64.S, context.c */
asmlinkage int rem_save_and_call(struct rem_context *ctx, int (*fn)(void *),
				 void *arg);
void rem_context_prepare(void);
void rem_context_save(struct rem_context *ctx);

/* record.c */
int rem_record_open(phys_addr_t region_phys, u64 region_bytes);
int rem_record_prepare(void);
void rem_record_next(void);
int rem_record_commit(void *arg);
void rem_record_account(void);
unsigned int rem_record_entries(void);
const struct rem_boot_note *rem_record_note(void);
void rem_flush(const void *addr, size_t bytes);

/* timeline.c */
void rem_timeline_begin_stop(void);
void rem_timeline_begin_go(u32 sequence);
void rem_event(enum rem_event_type type, u64 value);

/* dpm.c */
int rem_stop_dpm(void);

/* fast.c; park_queue.h, built into kernel/stop_machine.c */
void rem_stop_fast(void);
int rem_fast_error(void);
void rem_fast_finish(void);
unsigned int rem_park_queue(int (*fn)(void *));

/* power.c */
void rem_power_report_stopped(void);
void rem_power_go(bool resumed);
int rem_power_init(void);
bool rem_power_ok(void);

/* budget.c */
u64 rem_budget_hold_up_ns(void);
u64 rem_budget_bound_ns(void);
u64 rem_budget_last_ns(void);
u64 rem_budget_worst_ns(void);
bool rem_budget_fits(void);
bool rem_budget_exceeded(void);
void rem_budget_acknowledge(void);
void rem_budget_account(u64 begin_tsc, u64 end_tsc);

/**
 * struct rem_disk_owner - the log of a disk, as disks.c knows it
 * @list: of all such
 * @disk: which
 */
struct rem_disk_owner {
	struct list_head list;
	struct gendisk *disk;
};

/* disks.c */
void rem_disks_prepare(void);
ssize_t rem_disks_show(char *buf);
int rem_disks_store(const char *buf);
int rem_disk_log_begin(struct rem_disk_owner *owner, char **why);
void rem_disk_log_end(struct rem_disk_owner *owner);

/* disk_log_target.c */
#ifdef CONFIG_REMANENCE_DISK_LOG
void rem_logs_go(void);
#else
static inline void rem_logs_go(void)
{
}
#endif

/* nvdimm.c */
void rem_nvdimm_save(void);
void rem_nvdimm_go(void);
ssize_t rem_nvdimm_show(char *buf);

/* volatile.c */
bool rem_memory_volatile(void);

/* hotplug.c */
bool rem_hotplug_busy(void);
int rem_hotplug_init(void);

/* sysfs.c */
int rem_sysfs_init(void);

#endif /* __ASSEMBLY__ */
#endif /* REM_STOP_H */
