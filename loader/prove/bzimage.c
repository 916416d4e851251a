/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Any head of a kernel file: what is accepted fits together. */
#include "../core/linux.h"

#include "prove.h"

static u8 head[BZ_HEAD_BYTES];

int main(void)
{
	u64 file_bytes = nondet_u64();
	struct bz_image image;

	__CPROVER_havoc_object(head);
	if (bz_parse(head, file_bytes, &image))
		return 0;
	assert(file_bytes <= UINT32_MAX);
	assert((u64)image.setup_bytes + image.kernel_bytes == file_bytes);
	assert(image.kernel_bytes && image.init_bytes >= image.kernel_bytes);
	assert(image.align_bytes &&
	       !(image.align_bytes & (image.align_bytes - 1)));
	return 0;
}
