// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What pmadmin prints. */
#include <stdio.h>

#include "pmadmin.h"

static const char *truth(bool is)
{
	return is ? "true" : "false";
}

static void status_json(const struct pm_ioc_status *is)
{
	printf("{\"source\":\"%s\",\"phys\":%llu,\"address\":%llu,"
	       "\"region_bytes\":%llu,\"free_bytes\":%llu,"
	       "\"wish_bytes\":%llu,\"limit_bytes\":%llu,\"slots\":%u,"
	       "\"segments\":%u,\"refused\":%u,\"repaired\":%llu,"
	       "\"damaged\":%llu,\"windows\":%llu,\"dax\":%s,"
	       "\"same_address\":%s,\"protected\":%s,\"fof\":%s}\n",
	       is->source, is->phys, is->address, is->region_bytes,
	       is->free_bytes, is->wish_bytes, is->limit_bytes, is->slots,
	       is->used, is->refused, is->repaired, is->damaged, is->windows,
	       truth(is->flags & PM_HAS_DAX),
	       truth(is->flags & PM_HAS_SAME_ADDRESS),
	       truth(is->flags & PM_HAS_PROTECTION),
	       truth(is->flags & PM_HAS_FOF));
}

static void status_text(const struct pm_ioc_status *is)
{
	printf("region    %llu bytes at 0x%llx, from %s\n", is->region_bytes,
	       is->phys, is->source);
	if (is->flags & PM_HAS_SAME_ADDRESS)
		printf("address   0x%llx in the kernel, at each boot\n",
		       is->address);
	else
		printf("address   of another boot is not promised (pm= would)\n");
	printf("free      %llu bytes\n"
	       "segments  %u of %u, %u refused\n"
	       "repaired  %llu slots, %llu damaged halves found\n",
	       is->free_bytes, is->used, is->slots, is->refused, is->repaired,
	       is->damaged);
	printf("DAX       %s\n", is->flags & PM_HAS_DAX ?
					 "on disks of raw segments" :
					 "none: the memory is System RAM");
	printf("strays    %s\n", is->flags & PM_HAS_PROTECTION ?
					 "stores of other code fault" :
					 "not protected from other code");
	printf("caches    %s\n", is->flags & PM_HAS_FOF ?
					 "written back when the power fails" :
					 "volatile: each commit writes back");
	if (is->wish_bytes)
		printf("wish      %llu bytes at the next boot\n",
		       is->wish_bytes);
}

void show_segment(const struct pm_ioc_segment *is, bool json, bool first)
{
	const char *persist = is->persist == PM_PERSIST_FOF ? "fof" : "foc";
	const char *type = is->type == PM_TYPE_RAW ? "raw" : "block";

	if (is->state == PM_STATE_REFUSED) {
		if (json)
			printf("%s{\"slot\":%u,\"refused\":true}",
			       first ? "" : ",", is->slot);
		else
			printf("%-24s slot %u is damaged in all copies\n", "?",
			       is->slot);
		return;
	}
	if (json)
		printf("%s{\"name\":\"%s\",\"slot\":%u,\"type\":\"%s\","
		       "\"bytes\":%llu,\"offset\":%llu,\"block_bytes\":%u,"
		       "\"uid\":%u,\"gid\":%u,\"mode\":%u,\"users\":%u,"
		       "\"generation\":%llu,\"map_address\":%llu,"
		       "\"persist\":\"%s\"}",
		       first ? "" : ",", is->name, is->slot, type, is->bytes,
		       is->offset, is->block_bytes, is->uid, is->gid, is->mode,
		       is->users, is->generation, is->map_address, persist);
	else
		printf("%-24s %-5s %s %14llu bytes  mode %04o  uid %u  %u users\n",
		       is->name, type, persist, is->bytes, is->mode, is->uid,
		       is->users);
}

void show_status(const struct pm_ioc_status *is, bool json)
{
	if (json)
		status_json(is);
	else
		status_text(is);
}
