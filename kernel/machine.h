/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Stop (stop/) and Go (resume/) share: the state of the machine, the saved
 * context of a CPU, and the functions that each of the two provides to the
 * other. Everything else is private to one of them (stop.h, resume.h).
 */
#ifndef REM_MACHINE_H
#define REM_MACHINE_H

#include "isa.h"

#ifndef __ASSEMBLY__

#include <linux/remanence/rem_image.h>
#include <linux/types.h>

/* Whether a Stop is possible now; shown in sysfs, tested by name. */
enum rem_state {
	REM_OFF,		/* no loader handed over an NVRAM block */
	REM_ARMED,
	REM_STOPPING,
	REM_REFUSED,		/* see rem.why */
};

/* Of a name, with its end; a longer one is cut. */
#define REM_BLOCKER_BYTES 48

extern struct rem_context rem_contexts[NR_CPUS];

/**
 * struct rem_machine - all state of Stop-and-Go, in one place
 * @state: enum rem_state
 * @why: one line for users: why Stop is refused
 * @blocker: the device because of which the machine uses stop=dpm, or ""
 * @blocked: it does so as long as it runs
 * @differs: the device because of which the loader would refuse an image, or ""
 * @loses: the device that generic power management would lose, or ""
 * @block: the record block, mapped write-back
 * @region_phys: physical address of the NVRAM range with the block
 * @region_bytes: size of the range with the block; 0: no loader handed one over
 * @sequence: of the next Stop
 * @stop_mode: enum rem_stop_mode that the next Stop uses
 * @running_mode: enum rem_stop_mode of the Stop in progress
 * @resumes: images entered since the cold boot
 * @stop_reason: enum rem_stop_reason of the Stop in progress
 * @stop_begin_tsc: when it began
 * @last_error: 0 after Go, or why the last Stop was refused
 */
struct rem_machine {
	int state;
	const char *why;
	char blocker[REM_BLOCKER_BYTES];
	bool blocked;
	char differs[REM_BLOCKER_BYTES];
	char loses[REM_BLOCKER_BYTES];
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

/* Provided by Stop: core.c */
void rem_use_dpm(const char *because);
void rem_mode_hold(const char *because);
void rem_mode_release(void);
bool rem_mode_loses(void);
void rem_machine_differs(const char *device);
void rem_machine_loses(const char *device);

/* Provided by Stop: record.c */
const struct rem_desc_entry *rem_record_table(unsigned int *ret_count);

/* Provided by Stop: timeline.c, reset.c, power.c, nvdimm.c */
void rem_timeline_begin_go(u32 sequence);
void rem_timeline_flush(void);
void rem_event(enum rem_event_type type, u64 value);
void __noreturn rem_reset(void);
void rem_power_go(bool resumed);
void rem_nvdimm_go(void);

/* Provided by Stop: promise.c, also for pm */
struct notifier_block;
bool rem_promise(void);
void rem_promise_update(void);
int rem_promise_watch(struct notifier_block *nb);
void rem_promise_unwatch(struct notifier_block *nb);

/* Provided by Stop: budget.c, for mixed */
u64 rem_budget_hold_up_ns(void);
u64 rem_budget_bound_ns(void);

/* Provided by Stop: sysfs.c, for persist and mixed */
struct kobject *rem_sysfs_dir(void);

/* Provided by Stop: disks.c, for persist */
struct gendisk;
#define REM_DISK_IDENTITY_BYTES 128
int rem_disk_identity(struct gendisk *disk, char *text);

/* Provided by Stop: disk_log_target.c, for persist */
#ifdef CONFIG_REMANENCE_DISK_LOG
void rem_logs_early(bool on);
#else
static inline void rem_logs_early(bool on)
{
}
#endif

/* Provided by persist to Stop: state.c; redo.c, redo_disks.c */
struct rem_redo_ring;
#ifdef CONFIG_REMANENCE_PERSIST
bool rem_persist_excludes(dev_t dev);
struct rem_redo_ring *rem_redo_begin(const char *identity, u64 sectors,
				     u32 slots, u32 *ret_slots);
void rem_redo_end(struct rem_redo_ring *ring, bool clean);
void *rem_redo_data(struct rem_redo_ring *ring, u64 position);
void rem_redo_keep(struct rem_redo_ring *ring, u64 position, u64 sector,
		   const void *data, u32 bytes);
void rem_redo_fence(void);
void rem_redo_drop(struct rem_redo_ring *ring, u64 position);
void rem_redo_cover(struct rem_redo_ring *ring, u64 position);
void rem_redo_advance(struct rem_redo_ring *ring, u64 position);
void rem_redo_retry(void);
void rem_redo_wait(void);
#else
static inline bool rem_persist_excludes(dev_t dev)
{
	return false;
}

static inline struct rem_redo_ring *rem_redo_begin(const char *identity,
						   u64 sectors, u32 slots,
						   u32 *ret_slots)
{
	return NULL;
}

static inline void rem_redo_end(struct rem_redo_ring *ring, bool clean)
{
}

static inline void *rem_redo_data(struct rem_redo_ring *ring, u64 position)
{
	return ring; /* there is none */
}

static inline void rem_redo_keep(struct rem_redo_ring *ring, u64 position,
				 u64 sector, const void *data, u32 bytes)
{
}

static inline void rem_redo_fence(void)
{
}

static inline void rem_redo_drop(struct rem_redo_ring *ring, u64 position)
{
}

static inline void rem_redo_cover(struct rem_redo_ring *ring, u64 position)
{
}

static inline void rem_redo_advance(struct rem_redo_ring *ring, u64 position)
{
}

static inline void rem_redo_retry(void)
{
}

static inline void rem_redo_wait(void)
{
}
#endif

/* Provided by mixed to Stop and Go: frames.c */
#ifdef CONFIG_REMANENCE_MIXED
void rem_mixed_stop_begin(void);
void rem_mixed_stop(void);
void rem_mixed_stopped(void);
void rem_mixed_go_begin(bool resumed);
void rem_mixed_go(void);
void rem_mixed_went(void);
u64 rem_mixed_bound_ns(void);
#else
static inline void rem_mixed_stop_begin(void)
{
}

static inline void rem_mixed_stop(void)
{
}

static inline void rem_mixed_stopped(void)
{
}

static inline void rem_mixed_go_begin(bool resumed)
{
}

static inline void rem_mixed_go(void)
{
}

static inline void rem_mixed_went(void)
{
}

static inline u64 rem_mixed_bound_ns(void)
{
	return 0;
}
#endif

/* Provided by Go: what is prepared when the machine is armed */
int rem_go_prepare(void);
void rem_go_prepare_cpu(void);
void rem_go_entry(void);
phys_addr_t rem_pagetable_cr3(void);
ssize_t rem_low_pages_show(char *buf);
void rem_devices_prepare(bool fast);
unsigned int rem_devices_count(void);
void rem_devices_changed(void);
int rem_others_prepare(const char **ret_blocker);
int rem_lost_check(struct notifier_block *notifier);
const char *rem_cpu_refused(void);
const char *rem_cpus_refused(void);

/* Provided by Go to the hooks: pci.c */
u32 rem_devices_life(void);

/* Provided by Go: what Stop does to devices and interrupt controllers */
unsigned int rem_devices_stop(void);
void rem_interrupts_save(void);
void rem_platform_save(void);

/* Provided by Go: go.c, entropy.c */
void rem_go(bool resumed);
void rem_go_cpu(struct rem_context *ctx);
void rem_go_cpu_finish(void);
void rem_go_finish(void);
void rem_go_dpm(void);
void rem_entropy_reseed(void);

#endif /* __ASSEMBLY__ */
#endif /* REM_MACHINE_H */
