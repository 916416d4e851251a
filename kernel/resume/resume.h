/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of resume/ provide to each other; the rest is in machine.h. */
#ifndef REM_RESUME_H
#define REM_RESUME_H

#include <linux/notifier.h>
#include <linux/types.h>

struct cpumask;
struct device;
struct pci_dev;
struct rem_context;

/* entry_64.S: where the other CPUs enter */
void rem_go_secondary(void);

/* pagetable.c */
int rem_pagetable_prepare(void);

/* cpu.c */
bool rem_cpu_restore(struct rem_context *ctx);

/* smp.c */
void rem_cpus_start(const struct cpumask *back);
void rem_cpus_start_next(const struct cpumask *back);
void rem_cpus_start_again(const struct cpumask *back);

/* tsc.c */
void rem_clock_answer(unsigned int cpu);
bool rem_clock_lost(unsigned int cpu);

/* interrupt controllers of each instruction set */
void rem_interrupts_prepare_cpu(void);
void rem_interrupts_restore_cpu(void);
void rem_interrupts_restore(void);
void rem_interrupts_repeat(void);
void rem_tick_resume(void);

/* pci_caps.c */
#define REM_PCI_CAPS 17
#define REM_PCI_EXP_REGISTERS 7

/**
 * struct rem_pci_caps - copies of registers of a function's capabilities
 * @at: where each is in configuration space; 0: the function does not have it
 * @value: of each
 * @exp: of the PCI Express capability
 */
struct rem_pci_caps {
	u16 at[REM_PCI_CAPS];
	u32 value[REM_PCI_CAPS];
	u16 exp[REM_PCI_EXP_REGISTERS];
};

void rem_pci_caps_prepare(struct pci_dev *pdev, struct rem_pci_caps *copy);
void rem_pci_caps_go(struct pci_dev *pdev, const struct rem_pci_caps *copy);

/* described.c */
void rem_described_prepare(void);
void rem_described_check(void);
void rem_described_check_later(void);

/* pci_list.c */
#define REM_CONFIG_WORDS 16
/* One queue for each CPU, and a few others. */
#define REM_VECTORS_MAX (NR_CPUS + 8)

enum rem_pci_kind {
	REM_PCI_HOST,		/* a host bridge, which is left alone */
	REM_PCI_IDLE,		/* no driver: configuration space only */
	REM_PCI_BRIDGE,
	REM_PCI_VIRTIO,
	REM_PCI_RECOVER,	/* restarted by error recovery of its driver */
	REM_PCI_RETURN,		/* suspended and resumed by its driver, after Go */
};

/**
 * struct rem_pci - a PCI function
 * @pdev: the function
 * @kind: how it is restarted
 * @config: a copy of the beginning of its configuration space
 * @caps: copies of registers behind that
 * @err: of its last restart
 * @vectors: how many interrupts it has
 * @irq: their numbers
 */
struct rem_pci {
	struct pci_dev *pdev;
	enum rem_pci_kind kind;
	u32 config[REM_CONFIG_WORDS];
	struct rem_pci_caps caps;
	int err;
	unsigned int vectors;
	unsigned int irq[REM_VECTORS_MAX];
};

extern struct rem_pci *rem_pci;
extern unsigned int rem_pci_count;

void rem_pci_list_hold(void);
void rem_pci_list_release(void);

/* pci.c */
bool rem_devices_settled(u32 life);
unsigned int rem_devices_go(void);
void rem_devices_finish(void);

/* platform.c of each instruction set */
void rem_platform_restore(void);
void rem_platform_finish(void);

/* alarms.c */
void rem_alarms_finish(void);

/* restart.c */
int rem_restart_prepare(void);
void rem_restart_begin(void);

/* recover.c */
bool rem_recover_supported(struct pci_dev *pdev);
int rem_recover(struct pci_dev *pdev);

/* returned.c */
bool rem_return_supported(struct pci_dev *pdev, notifier_fn_t changed);
int rem_return(struct pci_dev *pdev);

/* virtio.c */
bool rem_virtio_is(struct pci_dev *pdev);
struct device *rem_virtio_device(struct pci_dev *pdev);
const char *rem_virtio_lost_by(struct pci_dev *pdev);
bool rem_virtio_supported(struct pci_dev *pdev);
void rem_virtio_watch(struct pci_dev *pdev, struct notifier_block *notifier);
int rem_virtio_go(struct pci_dev *pdev);
void rem_virtio_finish(struct pci_dev *pdev);

/* serial.c */
void rem_serial_finish(void);

/* trampoline.c */
int rem_trampoline_prepare(void);
void rem_trampoline_restore(void);

#endif /* REM_RESUME_H */
