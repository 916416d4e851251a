// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Making and opening a region. Nothing that is read from media is believed
 * before its check and its meaning have been looked at.
 */
#include "region.h"

#define TABLE_ALIGN_BYTES 4096

static rem_u64 table_bytes(rem_u32 slots)
{
	return pm_align_up((rem_u64)slots * REM_PM_SLOT_BYTES,
			   TABLE_ALIGN_BYTES);
}

rem_u64 pm_base_bytes(rem_u32 slots)
{
	return REM_PM_TABLE_OFFSET + REM_PM_COPIES * table_bytes(slots);
}

struct pm_slot pm_super_slot(rem_u8 *base)
{
	struct pm_slot slot = { .index = REM_PM_SUPER_INDEX };

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		slot.copy[copy] = base + copy * REM_PM_SUPER_STRIDE_BYTES;
	return slot;
}

struct pm_slot pm_table_slot(rem_u8 *base, const struct rem_pm_super *super,
			     rem_u32 index)
{
	struct pm_slot slot = { .index = index };

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		slot.copy[copy] = base + super->table_offset[copy] +
				  (rem_u64)index * REM_PM_SLOT_BYTES;
	return slot;
}

static bool all_zero(const void *data, size_t bytes)
{
	const rem_u8 *at = data;

	while (bytes && !*at) {
		at++;
		bytes--;
	}
	return !bytes;
}

static void fill_super(struct rem_pm_super *super,
		       const struct pm_format *format)
{
	memset(super, 0, sizeof(*super));
	super->magic = REM_PM_MAGIC;
	super->version = REM_PM_VERSION;
	super->slots = format->slots;
	super->region_bytes = format->bytes;
	super->base_bytes = pm_base_bytes(format->slots);
	for (rem_u32 copy = 0; copy < REM_PM_COPIES; copy++)
		super->table_offset[copy] =
			REM_PM_TABLE_OFFSET + copy * table_bytes(format->slots);
	super->created_ns = format->created_ns;
	memcpy(super->uuid, format->uuid, sizeof(super->uuid));
}

int pm_region_plan(const struct pm_format *format, struct rem_pm_super *ret)
{
	if (!format->slots || format->slots > REM_PM_SLOTS_MAX ||
	    format->bytes % REM_PM_UNIT_BYTES)
		return -EINVAL;
	if (format->bytes < pm_base_bytes(format->slots) + REM_PM_UNIT_BYTES)
		return -ENOSPC;
	fill_super(ret, format);
	return 0;
}

int pm_region_format(struct pm_env *env, void *base,
		     const struct pm_format *format)
{
	struct rem_pm_segment none = { .type = REM_PM_FREE };
	struct rem_pm_super super;
	struct pm_slot slot;
	int err = pm_region_plan(format, &super);

	if (err)
		return err;
	for (rem_u32 index = 0; index < format->slots; index++) {
		if (index % PM_REST == PM_REST - 1)
			pm_rest(env);
		slot = pm_table_slot(base, &super, index);
		pm_slot_first(env, &slot, &none, false);
	}
	pm_fence(env); /* the table, before anything says that it is one */
	slot = pm_super_slot(base);
	pm_slot_first(env, &slot, &super, true);
	pm_fence(env);
	return 0;
}

void pm_region_wipe(struct pm_env *env, void *base)
{
	struct pm_slot slot = pm_super_slot(base);

	for (int copy = 0; copy < REM_PM_COPIES; copy++)
		pm_zero(env, slot.copy[copy], REM_PM_SLOT_BYTES);
	pm_fence(env);
}

/* Whether a superblock that was committed can be true. */
static int super_is_sound(const struct rem_pm_super *super)
{
	if (super->magic != REM_PM_MAGIC)
		return -EUCLEAN;
	if (super->version != REM_PM_VERSION)
		return -EPROTONOSUPPORT;
	if (!super->slots || super->slots > REM_PM_SLOTS_MAX ||
	    super->base_bytes != pm_base_bytes(super->slots) ||
	    super->region_bytes % REM_PM_UNIT_BYTES ||
	    super->region_bytes <= super->base_bytes ||
	    !all_zero(super->reserved, sizeof(super->reserved)))
		return -EUCLEAN;
	for (rem_u32 copy = 0; copy < REM_PM_COPIES; copy++)
		if (super->table_offset[copy] !=
		    REM_PM_TABLE_OFFSET + copy * table_bytes(super->slots))
			return -EUCLEAN;
	return 0;
}

/* Zeros, or a format that was cut off before its last step. */
static bool never_formatted(const struct pm_slot *slot)
{
	rem_u8 copy_of[REM_PM_SLOT_BYTES];
	struct rem_pm_word word;

	for (int copy = 0; copy < REM_PM_COPIES; copy++) {
		if (!pm_fetch(copy_of, slot->copy[copy], sizeof(copy_of)))
			return false;
		memcpy(&word, copy_of + REM_PM_HALF_BYTES, sizeof(word));
		if (word.sequence > 1 || !all_zero(copy_of, REM_PM_HALF_BYTES))
			return false;
	}
	return true;
}

static int judge_super(rem_u8 *base, rem_u64 bytes, struct pm_verdict *verdict,
		       struct rem_pm_super *ret)
{
	struct pm_slot slot = pm_super_slot(base);
	int err;

	if (bytes < pm_base_bytes(1) + REM_PM_UNIT_BYTES)
		return -EFBIG;
	err = pm_slot_judge(&slot, verdict);
	if (err)
		return never_formatted(&slot) ? -ENOMEDIUM : err;
	memcpy(ret, verdict->half, sizeof(*ret));
	err = super_is_sound(ret);
	if (!err && ret->base_bytes >= bytes)
		err = -EFBIG;
	return err;
}

int pm_region_peek(const void *base, rem_u64 bytes, struct rem_pm_super *ret)
{
	struct rem_pm_super super;
	struct pm_verdict verdict;
	/* Judging only reads. */
	int err = judge_super((rem_u8 *)(size_t)base, bytes, &verdict, &super);

	if (!err)
		*ret = super;
	return err;
}

static rem_u32 hash_size(rem_u32 slots)
{
	rem_u32 size = 16;

	while (size < slots)
		size *= 2;
	return size;
}

size_t pm_region_volatile_bytes(rem_u32 slots)
{
	return sizeof(struct pm_entry) * slots +
	       sizeof(struct pm_node) * pm_nodes_for(slots) +
	       sizeof(rem_u32) * hash_size(slots) +
	       sizeof(rem_u32) * slots; /* order of extents, while opening */
}

bool pm_name_is_valid(const char *name)
{
	size_t length = 0;

	for (; name[length]; length++) {
		char c = name[length];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '.' || c == '_' ||
			     c == '-';

		if (length == REM_PM_NAME_BYTES - 1 || !plain)
			return false;
	}
	return length && name[0] != '.' && name[0] != '-';
}

bool pm_record_is_sound(const struct rem_pm_super *super,
			const struct rem_pm_segment *record)
{
	const size_t head = offsetof(struct rem_pm_segment, persist);
	size_t length;

	if (record->type == REM_PM_FREE)
		return all_zero((const rem_u8 *)record + head,
				sizeof(*record) - head);
	if (record->type != REM_PM_RAW && record->type != REM_PM_BLOCK)
		return false;
	if (record->name[REM_PM_NAME_BYTES - 1] ||
	    !pm_name_is_valid((const char *)record->name))
		return false;
	length = strlen((const char *)record->name);
	if (!all_zero(record->name + length, REM_PM_NAME_BYTES - length))
		return false;
	if (record->offset % REM_PM_UNIT_BYTES ||
	    record->extent_bytes % REM_PM_UNIT_BYTES || !record->bytes ||
	    record->bytes > record->extent_bytes ||
	    record->offset < super->base_bytes ||
	    record->offset >= super->region_bytes ||
	    record->extent_bytes > super->region_bytes - record->offset)
		return false;
	if (record->persist != REM_PM_FOC && record->persist != REM_PM_FOF)
		return false;
	if (record->mode & ~0777u || record->map_address % REM_PM_UNIT_BYTES ||
	    (record->type == REM_PM_BLOCK) != !!record->block_bytes)
		return false;
	return all_zero(record->reserved, sizeof(record->reserved));
}

static rem_u32 hash_of(const struct pm_region *region, const char *name)
{
	return pm_crc32c(name, strlen(name)) & region->hash_mask;
}

void pm_hash_add(struct pm_region *region, rem_u32 slot)
{
	const char *name = (const char *)region->entry[slot].record.name;
	rem_u32 *head = &region->hash[hash_of(region, name)];

	region->entry[slot].next = *head;
	*head = slot;
}

void pm_hash_remove(struct pm_region *region, rem_u32 slot)
{
	const char *name = (const char *)region->entry[slot].record.name;
	rem_u32 *link = &region->hash[hash_of(region, name)];

	while (*link != slot && *link != PM_SLOT_NONE)
		link = &region->entry[*link].next;
	if (*link == slot)
		*link = region->entry[slot].next;
}

rem_u32 pm_segment_find(const struct pm_region *region, const char *name)
{
	rem_u32 slot = region->hash[hash_of(region, name)];

	while (slot != PM_SLOT_NONE &&
	       strcmp((const char *)region->entry[slot].record.name, name))
		slot = region->entry[slot].next;
	return slot;
}

static void refuse(struct pm_region *region, rem_u32 slot)
{
	if (region->entry[slot].state == PM_SLOT_REFUSED)
		return;
	region->entry[slot].state = PM_SLOT_REFUSED;
	region->refused++;
}

/* Judge and repair each slot; what is in use is not yet looked at together. */
static void read_table(struct pm_region *region, bool may_write)
{
	for (rem_u32 index = region->super.slots; index-- > 0;) {
		struct pm_entry *entry = &region->entry[index];
		struct pm_slot slot =
			pm_table_slot(region->base, &region->super, index);
		struct pm_verdict verdict;
		int err = pm_slot_judge(&slot, &verdict);

		if (index % PM_REST == PM_REST - 1)
			pm_rest(region->env);
		region->damaged += verdict.damaged;
		memcpy(&entry->record, verdict.half, sizeof(entry->record));
		if (err ||
		    !pm_record_is_sound(&region->super, &entry->record)) {
			refuse(region, index);
			continue;
		}
		if (!verdict.whole && may_write) {
			pm_slot_repair(region->env, &slot, &verdict);
			region->repaired++;
		}
		entry->state = entry->record.type == REM_PM_FREE ?
				       PM_SLOT_FREE :
				       PM_SLOT_USED;
	}
}

static rem_u64 offset_of(const struct pm_region *region, rem_u32 slot)
{
	return region->entry[slot].record.offset;
}

/* Heap sort by offset: no recursion, no memory, no bad case. */
static void sift(const struct pm_region *region, rem_u32 *order, rem_u32 root,
		 rem_u32 count)
{
	for (;;) {
		rem_u32 child = 2 * root + 1;
		rem_u32 swap;

		if (child >= count)
			return;
		if (child + 1 < count &&
		    offset_of(region, order[child]) <
			    offset_of(region, order[child + 1]))
			child++;
		if (offset_of(region, order[root]) >=
		    offset_of(region, order[child]))
			return;
		swap = order[root];
		order[root] = order[child];
		order[child] = swap;
		root = child;
	}
}

static void sort_by_offset(const struct pm_region *region, rem_u32 *order,
			   rem_u32 count)
{
	for (rem_u32 root = count / 2; root-- > 0;)
		sift(region, order, root, count);
	for (rem_u32 last = count; last-- > 1;) {
		rem_u32 swap = order[0];

		order[0] = order[last];
		order[last] = swap;
		sift(region, order, 0, last);
	}
}

static rem_u64 end_of(const struct pm_region *region, rem_u32 slot)
{
	return offset_of(region, slot) +
	       region->entry[slot].record.extent_bytes;
}

/* Two segments in one place, or of one name: neither is to be believed. */
static rem_u32 refuse_conflicts(struct pm_region *region, rem_u32 *order)
{
	rem_u32 count = 0, widest = PM_SLOT_NONE;

	for (rem_u32 slot = 0; slot < region->super.slots; slot++)
		if (region->entry[slot].state == PM_SLOT_USED)
			order[count++] = slot;
	sort_by_offset(region, order, count);
	for (rem_u32 i = 0; i < count; i++) {
		rem_u32 slot = order[i];

		if (widest != PM_SLOT_NONE &&
		    offset_of(region, slot) < end_of(region, widest)) {
			refuse(region, slot);
			refuse(region, widest);
		}
		if (widest == PM_SLOT_NONE ||
		    end_of(region, slot) > end_of(region, widest))
			widest = slot;
	}
	for (rem_u32 i = 0; i < count; i++) {
		const char *name =
			(const char *)region->entry[order[i]].record.name;
		rem_u32 twin = pm_segment_find(region, name);

		if (twin != PM_SLOT_NONE) {
			refuse(region, twin);
			refuse(region, order[i]);
		} else {
			pm_hash_add(region, order[i]);
		}
	}
	return count;
}

static void build_extents(struct pm_region *region, struct pm_node *node,
			  const rem_u32 *order, rem_u32 count)
{
	rem_u64 base_units = region->super.base_bytes / REM_PM_UNIT_BYTES;
	rem_u32 last = 0;

	pm_extents_init(&region->extents, node,
			pm_nodes_for(region->super.slots), base_units,
			region->super.region_bytes / REM_PM_UNIT_BYTES -
				base_units);
	for (rem_u32 i = 0; i < count; i++) {
		struct pm_entry *entry = &region->entry[order[i]];
		rem_u64 units = entry->record.extent_bytes / REM_PM_UNIT_BYTES;

		if (entry->state != PM_SLOT_USED)
			continue;
		region->used++;
		entry->node = pm_extents_take(&region->extents, last,
					      entry->record.offset /
						      REM_PM_UNIT_BYTES,
					      units, order[i]);
		last = region->extents.node[entry->node].after;
	}
	region->free_slot = PM_SLOT_NONE;
	for (rem_u32 slot = region->super.slots; slot-- > 0;) {
		if (region->entry[slot].state != PM_SLOT_FREE)
			continue;
		region->entry[slot].next = region->free_slot;
		region->free_slot = slot;
	}
}

/* The next boot after a wish, or other memory than last time. */
static int take_size(struct pm_region *region, rem_u64 bytes, bool may_write)
{
	struct pm_slot slot = pm_super_slot(region->base);
	rem_u64 whole = bytes / REM_PM_UNIT_BYTES * REM_PM_UNIT_BYTES;
	rem_u64 end = region->super.base_bytes + REM_PM_UNIT_BYTES;

	if (whole == region->super.region_bytes)
		return 0;
	if (!may_write)
		return whole < region->super.region_bytes ? -EFBIG : 0;
	if (region->refused && whole < region->super.region_bytes)
		return -EROFS;
	for (rem_u32 index = 0; index < region->super.slots; index++)
		if (region->entry[index].state == PM_SLOT_USED &&
		    end_of(region, index) > end)
			end = end_of(region, index);
	if (whole < end)
		return -EFBIG;
	if (region->super.word.sequence >= REM_PM_SEQUENCE_LAST)
		return -EOVERFLOW;
	region->super.region_bytes = whole;
	region->super.wish_bytes = 0;
	pm_slot_write(region->env, &slot, ++region->super.word.sequence,
		      &region->super);
	return 0;
}

int pm_region_open(struct pm_region *region, struct pm_env *env, void *base,
		   rem_u64 bytes, void *memory, bool may_write)
{
	struct pm_verdict verdict;
	struct pm_slot slot = pm_super_slot(base);
	struct pm_node *node;
	rem_u32 *order, count;
	int err;

	memset(region, 0, sizeof(*region));
	region->env = env;
	region->base = base;
	err = judge_super(base, bytes, &verdict, &region->super);
	if (err)
		return err;
	region->damaged = verdict.damaged;
	if (!verdict.whole && may_write) {
		pm_slot_repair(env, &slot, &verdict);
		region->repaired++;
	}
	if (bytes < region->super.base_bytes + REM_PM_UNIT_BYTES)
		return -EFBIG;
	region->entry = memory;
	node = (struct pm_node *)(region->entry + region->super.slots);
	region->hash = (rem_u32 *)(node + pm_nodes_for(region->super.slots));
	region->hash_mask = hash_size(region->super.slots) - 1;
	order = region->hash + region->hash_mask + 1;
	for (rem_u32 i = 0; i <= region->hash_mask; i++)
		region->hash[i] = PM_SLOT_NONE;
	read_table(region, may_write);
	err = take_size(region, bytes, may_write);
	if (err)
		return err;
	count = refuse_conflicts(region, order);
	build_extents(region, node, order, count);
	return 0;
}
