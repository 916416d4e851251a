/* SPDX-License-Identifier: GPL-2.0-only */
/* For block/blk-mq.c: what a CPU that goes offline waits for. */
#ifndef REM_QUEUE_LEAVES_H
#define REM_QUEUE_LEAVES_H

#include "hooks.h"

/**
 * rem_request_stays - whether a request waits for its driver to be resumed
 *
 * A driver that is suspended leaves its queue quiesced. A request that came after that is with
 * the block layer, which moves it to another CPU, and nobody ends it before Go.
 *
 * Return: true if no CPU that goes offline may wait for it.
 */
static inline bool rem_request_stays(struct request *rq)
{
	return blk_queue_quiesced(rq->mq_hctx->queue) && !blk_mq_request_started(rq);
}

#endif /* REM_QUEUE_LEAVES_H */
