/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of resume/ provide to each other; the rest is in machine.h. */
#ifndef REM_RESUME_H
#define REM_RESUME_H

#include <linux/types.h>

struct pci_dev;
struct rem_context;

/* entry_64.S: where the other CPUs enter */
void rem_go_secondary(void);

/* pagetable.c */
int rem_pagetable_prepare(void);

/* cpu.c */
void rem_cpu_restore(struct rem_context *ctx);

/* smp.c */
void rem_cpus_start(void);

/* apic.c */
void rem_apic_prepare(void);
void rem_apic_restore(void);
void rem_interrupts_restore(void);
void rem_interrupts_repeat(void);
void rem_tick_resume(void);

/* pci.c */
unsigned int rem_devices_go(void);
void rem_devices_finish(void);

/* recover.c */
bool rem_recover_supported(struct pci_dev *pdev);
int rem_recover(struct pci_dev *pdev);

/* virtio.c */
bool rem_virtio_is(struct pci_dev *pdev);
bool rem_virtio_supported(struct pci_dev *pdev);
int rem_virtio_go(struct pci_dev *pdev);
void rem_virtio_finish(struct pci_dev *pdev);

/* serial.c */
void rem_serial_finish(void);

/* trampoline.c */
int rem_trampoline_prepare(void);
void rem_trampoline_restore(void);

#endif /* REM_RESUME_H */
