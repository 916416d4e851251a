/* SPDX-License-Identifier: GPL-2.0-only */
/* For arch/riscv/kernel/cpu-hotplug.c: a hart that is about to be gone. */
#ifndef REM_HART_LEAVES_H
#define REM_HART_LEAVES_H

#ifdef CONFIG_REMANENCE
void rem_hart_leaves(void);
#else
static inline void rem_hart_leaves(void)
{
}
#endif

#endif /* REM_HART_LEAVES_H */
