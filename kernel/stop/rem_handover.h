/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_REM_HANDOVER_H
#define _LINUX_REM_HANDOVER_H

#include <linux/remanence/rem_image.h>
#include <linux/types.h>

#ifdef CONFIG_REMANENCE
void rem_handover_parse(u64 phys, u32 bytes);
bool rem_stop_planned(int *ret_err);
#else
static inline void rem_handover_parse(u64 phys, u32 bytes) { }
static inline bool rem_stop_planned(int *ret_err)
{
	return false;
}
#endif

#endif /* _LINUX_REM_HANDOVER_H */
