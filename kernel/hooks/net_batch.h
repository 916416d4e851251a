/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by net/core/dev.c and net/sched/sch_generic.c: bounds how long packets keep
 * a CPU from a Stop, whose threads run after softirqs only.
 */
#ifndef REM_NET_BATCH_H
#define REM_NET_BATCH_H

#include "hooks.h"

#ifdef CONFIG_REMANENCE
#include <linux/minmax.h>

/* Packets at once, instead of 64. */
#define REM_NET_BATCH_MAX 16

/* How many packets a device or queue may have handled before others come. */
static inline int rem_net_batch(int weight)
{
	return min(weight, REM_NET_BATCH_MAX);
}

/* Whether what can be put off has to wait. */
static inline bool rem_gathering(void)
{
	return READ_ONCE(rem_cpus_gather);
}
#else
static inline int rem_net_batch(int weight)
{
	return weight;
}

static inline bool rem_gathering(void)
{
	return false;
}
#endif

#endif /* REM_NET_BATCH_H */
