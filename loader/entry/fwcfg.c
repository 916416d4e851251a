/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "fwcfg.h"

#include "../hw/io.h"

#define SELECT_SIGNATURE 0x0000
#define SELECT_FEATURES 0x0001
#define SELECT_DIRECTORY 0x0019
#define FEATURE_DMA 2u

#define DMA_ERROR 1u
#define DMA_READ 2u
#define DMA_SKIP 4u
#define DMA_SELECT 8u

/* On the supported machines QEMU has fewer than 100 files. */
#define DIRECTORY_MAX 256

struct dma {
	u32 control;
	u32 bytes;
	u64 address;
};

struct directory_entry {
	u32 bytes;
	u16 select;
	u16 reserved;
	char name[56];
};

static_assert(sizeof(struct directory_entry) == 64);

static struct directory_entry directory[DIRECTORY_MAX];
static u32 directory_count;

static u32 swap32(u32 value)
{
	return __builtin_bswap32(value);
}

/* One request; QEMU serves it before the write returns. */
static bool transfer(u32 control, void *to, u32 bytes)
{
	volatile struct dma request = {
		.control = swap32(control),
		.bytes = swap32(bytes),
		.address = __builtin_bswap64((u64)(uintptr_t)to),
	};
	u64 phys = (u64)(uintptr_t)&request;

	fence();
	fwcfg_dma(phys);
	while (request.control & ~swap32(DMA_ERROR))
		relax();
	return !request.control;
}

static u32 data32(void)
{
	u32 value = 0;

	for (int i = 0; i < 4; i++)
		value |= (u32)fwcfg_data() << (8 * i);
	return value;
}

bool fwcfg_open(void)
{
	u32 count;

	fwcfg_select(SELECT_SIGNATURE);
	if (data32() != 0x554d4551) /* "QEMU" */
		return false;
	fwcfg_select(SELECT_FEATURES);
	if (!(data32() & FEATURE_DMA))
		return false;
	if (!transfer(SELECT_DIRECTORY << 16 | DMA_SELECT | DMA_READ, &count,
		      sizeof(count)))
		return false;
	count = swap32(count);
	if (count > DIRECTORY_MAX)
		count = DIRECTORY_MAX;
	if (!transfer(DMA_READ, directory, count * (u32)sizeof(directory[0])))
		return false;
	directory_count = count;
	return true;
}

static bool same_name(const char *a, const char *b)
{
	for (u32 i = 0; i < sizeof(directory[0].name); i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			return true;
	}
	return false;
}

bool fwcfg_find(const char *name, struct fwcfg_file *ret_file)
{
	for (u32 i = 0; i < directory_count; i++) {
		if (!same_name(directory[i].name, name))
			continue;
		ret_file->bytes = swap32(directory[i].bytes);
		ret_file->select = __builtin_bswap16(directory[i].select);
		return true;
	}
	return false;
}

bool fwcfg_read(const struct fwcfg_file *file, u32 offset, void *to, u32 bytes)
{
	if (offset > file->bytes || bytes > file->bytes - offset)
		return false;
	if (!transfer((u32)file->select << 16 | DMA_SELECT | DMA_SKIP, NULL,
		      offset))
		return false;
	return transfer(DMA_READ, to, bytes);
}
