/* SPDX-License-Identifier: GPL-2.0-only */
/* For block/blk-mq.c: what a CPU that goes offline waits for. */
#ifndef REM_QUEUE_LEAVES_H
#define REM_QUEUE_LEAVES_H

#ifdef CONFIG_REMANENCE
#include <linux/blk-mq.h>
#include <linux/cpu.h>
#include "hooks.h"

/**
 * rem_request_stays - whether a request waits for its driver to be resumed
 * @queue: of the disk
 * @rq: the request
 *
 * A driver that is suspended leaves its queue quiesced. A request that came after that
 * stays with the block layer, and nobody ends it before Go, when the CPU is back.
 *
 * Context: a CPU goes offline, for a Stop or for good.
 * Return: true if no CPU that goes offline may wait for it.
 */
static inline bool rem_request_stays(struct request_queue *queue,
				     struct request *rq)
{
	/* Otherwise a driver is reset, and will end it; the CPU stays away. */
	return cpuhp_tasks_frozen && blk_queue_quiesced(queue) &&
	       !blk_mq_request_started(rq);
}
#else
static inline bool rem_request_stays(struct request_queue *queue,
				     struct request *rq)
{
	return false;
}
#endif

#endif /* REM_QUEUE_LEAVES_H */
