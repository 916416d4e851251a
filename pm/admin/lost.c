// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What media has lost, as reads of raw segments and of their disks have found it. */
#include <errno.h>
#include <stdio.h>

#include "pmadmin.h"

#define LIST "/sys/class/misc/pmctl/region/badblocks"
#define SECTOR_BYTES 512ull

/* The segment that a byte of the region is in; NULL: none. */
static const char *segment_of(struct pm *pm, unsigned long long at,
			      struct pm_ioc_segment *is)
{
	uint32_t slot = 0;

	for (; !pm_next(pm, &slot, is); slot++)
		if (is->state == PM_STATE_USED && at >= is->offset &&
		    at - is->offset < is->extent_bytes)
			return is->name;
	return NULL;
}

static void show(struct pm *pm, unsigned long long at, unsigned long long bytes,
		 bool json, bool first)
{
	struct pm_ioc_segment is;
	const char *name = segment_of(pm, at, &is);

	if (name)
		at -= is.offset;
	if (json)
		printf("%s{\"name\":\"%s\",\"offset\":%llu,\"bytes\":%llu}",
		       first ? "" : ",", name ? name : "", at, bytes);
	else
		printf("%s: bytes %llu to %llu are lost\n",
		       name ? name : "outside of segments", at, at + bytes - 1);
}

int list_lost(struct pm *pm, bool json)
{
	unsigned long long sector, count;
	FILE *file = fopen(LIST, "r");
	bool first = true;

	if (!file)
		return fail(LIST, -errno);
	if (json)
		printf("[");
	while (fscanf(file, "%llu %llu", &sector, &count) == 2) {
		show(pm, sector * SECTOR_BYTES, count * SECTOR_BYTES, json,
		     first);
		first = false;
	}
	if (json)
		printf("]\n");
	fclose(file);
	return first ? EXIT_DONE : EXIT_DAMAGE;
}
