/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * QEMU's fw_cfg by DMA: a kernel byte by byte through a port takes seconds
 * under TCG.
 */
#include "shim.h"

#define FWCFG_DMA_PORT 0x514
#define FWCFG_FILE_DIR 0x19
#define DMA_ERROR 1u
#define DMA_READ 2u
#define DMA_SKIP 4u
#define DMA_SELECT 8u

struct dma {
	uint32_t control;
	uint32_t bytes;
	uint64_t address;
};

struct file {
	uint32_t bytes;
	uint16_t select;
	uint16_t reserved;
	char name[56];
};

static void dma(uint32_t control, void *to, uint32_t bytes)
{
	static volatile struct dma request;
	uint64_t at = (uint64_t)&request;

	request.control = __builtin_bswap32(control);
	request.bytes = __builtin_bswap32(bytes);
	request.address = __builtin_bswap64((uint64_t)to);
	__asm__ volatile("" : : : "memory");
	out32(FWCFG_DMA_PORT, __builtin_bswap32((uint32_t)(at >> 32)));
	out32(FWCFG_DMA_PORT + 4, __builtin_bswap32((uint32_t)at));
	while (__builtin_bswap32(request.control) & ~DMA_ERROR)
		;
	if (request.control)
		stop("fw_cfg refuses a transfer");
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

uint16_t fwcfg_find(const char *name, uint32_t *ret_bytes)
{
	uint32_t count;
	struct file file;

	dma(FWCFG_FILE_DIR << 16 | DMA_SELECT | DMA_READ, &count,
	    sizeof(count));
	count = __builtin_bswap32(count);
	while (count--) {
		dma(DMA_READ, &file, sizeof(file));
		if (!same(file.name, name))
			continue;
		*ret_bytes = __builtin_bswap32(file.bytes);
		return __builtin_bswap16(file.select);
	}
	return 0;
}

uint16_t fwcfg_require(const char *name, uint32_t *ret_bytes)
{
	uint16_t key = fwcfg_find(name, ret_bytes);

	if (!key) {
		put_text("SHIM: missing ");
		put_text(name);
		put_text("\n");
		stop("a fw_cfg file is missing");
	}
	return key;
}

void fwcfg_read(uint16_t key, uint32_t offset_bytes, void *to, uint32_t bytes)
{
	dma((uint32_t)key << 16 | DMA_SELECT | DMA_SKIP, 0, offset_bytes);
	dma(DMA_READ, to, bytes);
}
