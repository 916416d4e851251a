/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A small block segment in a recorder, and its content as programs read it. */
#ifndef PM_BLOCKS_H
#define PM_BLOCKS_H

#include "../core/block.h"
#include "recorder.h"

#define BLOCK 512
#define BLOCKS_BYTES (12 * 4096)
#define BLOCKS_MAX 64
#define TX_MAX 6

struct blocks {
	struct pm_env *env;
	struct pm_block block;
	void *volatile_memory;
};

/* The checksum of each block's content; its error if it cannot be read. */
struct blocks_seen {
	rem_u32 count;
	rem_u32 content[BLOCKS_MAX];
	int err[BLOCKS_MAX];
};

extern const rem_u8 blocks_uuid[16];
extern const struct pm_block_format blocks_format;

void blocks_make(struct blocks *blocks);
int blocks_open(struct blocks *blocks);
void blocks_free(struct blocks *blocks);
void blocks_see(struct pm_block *block, struct blocks_seen *ret);
int blocks_image_see(rem_u8 *image, struct blocks_seen *ret,
		     struct pm_block *ret_block);

/* Write @count blocks from @first on with bytes of @seed; 0: holes. */
int blocks_write(struct blocks *blocks, rem_u32 first, rem_u32 count,
		 rem_u32 seed);

#endif /* PM_BLOCKS_H */
