/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef REM_RESUME_H
#define REM_RESUME_H

#include <linux/types.h>

struct rem_context;

/* entry_64.S: where the loader enters; runs at its physical address. */
void rem_go_entry(void);

/* pagetable.c */
int rem_pagetable_prepare(void);
phys_addr_t rem_pagetable_cr3(void);

/* cpu.c */
void rem_cpu_restore(struct rem_context *ctx);

/* trampoline.c */
int rem_trampoline_prepare(void);
void rem_trampoline_restore(void);
unsigned int rem_trampoline_pages(void);

/* entropy.c */
void rem_entropy_reseed(void);

#endif /* REM_RESUME_H */
