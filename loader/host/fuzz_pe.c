/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The headers of an image, in a buffer of their own; the rest of it counts as zeros. */
#include <stdlib.h>

#include "../core/pe.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static const char *const names[] = {
		".linux", ".initrd", ".cmdline", ".protect", "", "12345678"
	};
	u8 *head = calloc(1, PE_HEAD_BYTES);
	struct pe_section found;
	u32 image_bytes;

	memcpy(head, data, bytes < PE_HEAD_BYTES ? bytes : PE_HEAD_BYTES);
	image_bytes = pe_image_bytes(head);
	for (u32 i = 0; i < GO_COUNT(names); i++) {
		if (!pe_find(head, names[i], &found))
			continue;
		if (found.at < PE_HEAD_BYTES || !found.bytes ||
		    (u64)found.at + found.bytes > image_bytes)
			abort();
	}
	free(head);
	return 0;
}
