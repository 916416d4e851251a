/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of stop/ provide to each other; the rest is in machine.h. */
#ifndef REM_STOP_H
#define REM_STOP_H

#include <linux/list.h>
#include <linux/types.h>
#include "../machine.h"

struct gendisk;
struct rem_body;

/* core.c */
bool rem_stop_begin(u32 reason);
void rem_stop_power_returned(void);
const char *rem_mode_name(void);
void rem_thread_sleep(void);
void rem_thread_wake(void);

/* context.c and assembly of each instruction set */
asmlinkage int rem_save_and_call(struct rem_context *ctx, int (*fn)(void *),
				 void *arg);
asmlinkage void rem_call_on_stack(void *stack, void (*fn)(void *), void *arg);
void rem_context_prepare(void);
void rem_context_save(struct rem_context *ctx);

/* quiet.c of each instruction set */
void rem_quiet_prepare(void);
void rem_quiet_begin(void);
void rem_quiet_end(const struct rem_context *ctx);

/* record.c */
int rem_record_open(phys_addr_t region_phys, u64 region_bytes);
bool rem_record_described(void);
int rem_record_prepare(void);
int rem_record_commit(void);
void rem_record_account(void);
void rem_record_report(void);
unsigned int rem_record_entries(void);
bool rem_record_nvram(u64 start, u64 bytes);
const struct rem_boot_note *rem_record_note(void);
void rem_flush(const void *addr, size_t bytes);

/* trust.c */
void rem_trust_read(void);
const char *rem_trust_prepare(struct rem_body *body);
void rem_trust_contexts(struct rem_body *body);
void rem_trust_header(struct rem_body *body);
void rem_trust_forget(void);
u64 rem_trust_bound_ns(void);
ssize_t rem_trust_show(char *buf);

/* text.c */
#ifdef CONFIG_X86_64
const char *rem_text_sum_up(void);
bool rem_text_waits(void);
#else
static inline const char *rem_text_sum_up(void)
{
	return NULL;
}

static inline bool rem_text_waits(void)
{
	return false;
}
#endif

/* timeline.c */
void rem_timeline_begin_stop(void);

/* dpm.c */
int rem_stop_dpm(void);

/* fast.c */
void rem_stop_fast(void);
int rem_fast_error(void);

/* wire.c of each instruction set */
u8 rem_wire_in(unsigned int reg);
void rem_wire_out(unsigned int reg, u8 value);
void rem_wire_prepare(void);
int rem_wire_irq(void);

/* power.c */
void rem_power_report_stopped(void);
void __noreturn rem_power_wait(void);
int rem_power_init(void);
bool rem_power_ok(void);
bool rem_power_watched(void);
bool rem_power_charged(void);

/* reset.c of each instruction set, and off.c of x86 */
void rem_reset_prepare(void);
void rem_off_prepare(void);
void rem_off(void);

/* budget.c */
u64 rem_budget_last_ns(void);
u64 rem_budget_worst_ns(void);
bool rem_budget_fits(void);
bool rem_budget_is_unknown(void);
bool rem_budget_exceeded(void);
void rem_budget_acknowledge(void);
void rem_budget_account(u64 begin_tsc, u64 end_tsc);

/**
 * struct rem_disk_owner - the log of a disk, as disks.c knows it
 * @list: of all logs
 * @disk: the disk
 */
struct rem_disk_owner {
	struct list_head list;
	struct gendisk *disk;
};

/* disks.c */
void rem_disks_prepare(void);
int rem_disks_watch(void);
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

/* nvdimm.c of each instruction set */
void rem_nvdimm_save(void);
ssize_t rem_nvdimm_show(char *buf);

/* firmware.c of each instruction set */
const char *rem_firmware_blocker(void);

/* hold.c */
int rem_hold_store(const char *text);
ssize_t rem_hold_show(char *buf);
void rem_hold_write(struct rem_body *body);

/* health.c */
bool rem_health_good(void);
int rem_health_store(const char *line);
ssize_t rem_health_show(char *buf);
ssize_t rem_health_status(char *buf);

/* volatile.c */
bool rem_memory_volatile(void);

/* promise.c */
void rem_promise_suspend(void);
void rem_promise_resume(void);

/* hotplug.c */
bool rem_hotplug_busy(void);
int rem_hotplug_init(void);

/* sysfs.c */
int rem_sysfs_init(void);
void rem_sysfs_promise_changed(void);
void rem_sysfs_health_changed(void);

#endif /* REM_STOP_H */
