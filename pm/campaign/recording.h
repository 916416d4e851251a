/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A recording (format/rem_recording.h), as far as it is of one region. */
#ifndef PM_RECORDING_H
#define PM_RECORDING_H

#include <stdbool.h>

#include "rem_pm.h"
#include "rem_recording.h"

struct recording {
	const rem_u8 *file;
	size_t bytes;
	size_t at;
	rem_u64 region, region_bytes; /* physical */
};

/* One event of the region; of one that is not, @kind is 0. */
struct happened {
	rem_u8 kind; /* enum rem_rec_kind */
	rem_u32 aux;
	rem_u64 offset; /* in the region */
	rem_u32 bytes;
	const rem_u8 *data;
};

/*
 * Map DIR/recording.bin, and give @ret_media what the region held when it began
 * (@region_bytes of memory). 0, or a negative errno.
 */
int recording_open(struct recording *ret, const char *dir, rem_u64 region,
		   rem_u64 region_bytes, rem_u8 *ret_media);
/* The next event; false at the end. */
bool recording_next(struct recording *recording, struct happened *ret);

#endif /* PM_RECORDING_H */
