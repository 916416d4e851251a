/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_X86_PM_REGION_H
#define _ASM_X86_PM_REGION_H

#ifdef CONFIG_REMANENCE_PM
void pm_region_reserve(void);
#else
static inline void pm_region_reserve(void)
{
}
#endif

#endif /* _ASM_X86_PM_REGION_H */
