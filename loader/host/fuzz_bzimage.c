/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The head of a kernel file; the first eight bytes are its size. */
#include <stdlib.h>

#include "../core/linux.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static u8 params[GO_PAGE_BYTES];
	struct map map = { .count = 0 };
	struct linux_boot boot = { .map = &map };
	struct bz_image image;
	u64 file_bytes;
	u8 *head;

	if (bytes < 8 + BZ_HEAD_BYTES)
		return 0;
	file_bytes = get_u64(data);
	head = malloc(BZ_HEAD_BYTES);
	memcpy(head, data + 8, BZ_HEAD_BYTES);
	map_paint(&map, 0x1000, 0x1000, MAP_RAM);
	if (!bz_parse(head, file_bytes, &image)) {
		if ((u64)image.setup_bytes + image.kernel_bytes != file_bytes ||
		    image.init_bytes < image.kernel_bytes || !image.align_bytes)
			abort();
		linux_boot_params(params, head, &boot);
		if (params[0x1e8] != 1 || get_u64(params + 0x2d0) != 0x1000)
			abort();
	}
	free(head);
	return 0;
}
