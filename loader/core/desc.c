/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "desc.h"

#include "crc32c.h"

void desc_add(struct desc *desc, u16 type, u32 key, const u64 *value,
	      u32 values)
{
	struct rem_desc_entry *entry;

	if (desc->count == REM_DESC_ENTRIES_MAX) {
		desc->full = true;
		return;
	}
	entry = &desc->entry[desc->count++];
	*entry = (struct rem_desc_entry){ .type = type, .key = key };
	for (u32 i = 0; i < values && i < GO_COUNT(entry->value); i++)
		entry->value[i] = value[i];
}

void desc_add_cpus(struct desc *desc, const u32 *apic_id, u32 count,
		   u32 boot_apic_id)
{
	u64 number = count;

	desc_add(desc, REM_DESC_CPU_COUNT, 0, &number, 1);
	for (u32 i = 0; i < count; i++) {
		u64 value[2] = { apic_id[i], apic_id[i] == boot_apic_id };

		desc_add(desc, REM_DESC_CPU, i, value, 2);
	}
}

static bool before(const struct rem_desc_entry *a,
		   const struct rem_desc_entry *b)
{
	if (a->type != b->type)
		return a->type < b->type;
	if (a->key != b->key)
		return a->key < b->key;
	return a->index < b->index;
}

void desc_finish(struct desc *desc)
{
	struct rem_desc_entry *entry = desc->entry;

	/* Insertion sort: it is stable, and the input is nearly sorted. */
	for (u32 i = 1; i < desc->count; i++) {
		struct rem_desc_entry moving = entry[i];
		u32 to = i;

		for (; to && before(&moving, &entry[to - 1]); to--)
			entry[to] = entry[to - 1];
		if (to != i)
			entry[to] = moving;
	}
	for (u32 i = 1; i < desc->count; i++)
		if (entry[i].type == entry[i - 1].type &&
		    entry[i].key == entry[i - 1].key)
			entry[i].index = (u16)(entry[i - 1].index + 1);
}

u32 desc_write(const struct desc *desc, u8 *to)
{
	u32 bytes = desc->count * (u32)sizeof(desc->entry[0]);
	struct rem_desc header = {
		.magic = REM_DESC_MAGIC,
		.count = desc->count,
		.crc = crc32c(desc->entry, bytes),
	};

	/* Without a magic the kernel makes no image of this machine. */
	if (desc->full)
		header = (struct rem_desc){ .magic = 0 };
	memcpy(to, &header, sizeof(header));
	memcpy(to + sizeof(header), desc->entry, bytes);
	return (u32)sizeof(header) + bytes;
}

static u32 reason_of(u16 type)
{
	switch (type) {
	case REM_DESC_KERNEL:
		return REM_COLD_KERNEL_DIFFERS;
	case REM_DESC_CPU_COUNT:
	case REM_DESC_CPU:
		return REM_COLD_CPU_DIFFERS;
	case REM_DESC_CPUID:
		return REM_COLD_CPUID_DIFFERS;
	case REM_DESC_MEMORY:
		return REM_COLD_MEMORY_DIFFERS;
	case REM_DESC_PCI:
		return REM_COLD_PCI_DIFFERS;
	case REM_DESC_ACPI:
		return REM_COLD_ACPI_DIFFERS;
	case REM_DESC_DISK:
		return REM_COLD_DISK_DIFFERS;
	case REM_DESC_ISA:
		return REM_COLD_ISA_DIFFERS;
	case REM_DESC_TREE:
		return REM_COLD_TREE_DIFFERS;
	default:
		return REM_COLD_MACHINE_UNKNOWN;
	}
}

static u64 distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/*
 * No image is in DRAM, and firmware may reserve a little more of it at one boot
 * than at another: only what a module or a setting changes is another machine.
 */
static bool same_dram(const struct rem_desc_entry *a,
		      const struct rem_desc_entry *b)
{
	struct rem_desc_entry other = *b;

	other.value[1] = a->value[1];
	return a->type == REM_DESC_MEMORY && a->value[2] == REM_MEMORY_DRAM &&
	       !memcmp(a, &other, sizeof(other)) &&
	       distance(a->value[1], b->value[1]) <= REM_DRAM_TOLERANCE_BYTES;
}

static bool same(const u8 *expected, const struct rem_desc_entry *found)
{
	struct rem_desc_entry image;

	memcpy(&image, expected, sizeof(image));
	return !memcmp(&image, found, sizeof(image)) ||
	       same_dram(&image, found);
}

u32 desc_compare(const u8 *expected, u32 expected_count,
		 const struct desc *found, struct rem_desc_entry *ret_expected,
		 struct rem_desc_entry *ret_found)
{
	u32 both = expected_count < found->count ? expected_count :
						   found->count;
	struct rem_desc_entry image = { 0 }, machine = { 0 };
	bool image_has, machine_has;
	u32 i;

	for (i = 0; i < both; i++)
		if (!same(expected + i * sizeof(image), &found->entry[i]))
			break;
	image_has = i < expected_count;
	machine_has = i < found->count;
	if (!image_has && !machine_has)
		return REM_BOOT_RESUME;
	if (image_has)
		memcpy(&image, expected + i * sizeof(image), sizeof(image));
	if (machine_has)
		machine = found->entry[i];
	/* Different positions in the order: the later entry has no counterpart. */
	if (image_has && machine_has) {
		if (before(&image, &machine))
			machine_has = false;
		else if (before(&machine, &image))
			image_has = false;
	}
	*ret_expected = image_has ? image : (struct rem_desc_entry){ 0 };
	*ret_found = machine_has ? machine : (struct rem_desc_entry){ 0 };
	return reason_of(image_has ? image.type : machine.type);
}
