/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The registers of QEMU's fw_cfg at ports. */
#include "../hw/io.h"
#include "fwcfg.h"

#define PORT_SELECT 0x510
#define PORT_DATA 0x511
#define PORT_DMA_HIGH 0x514
#define PORT_DMA_LOW 0x518

void fwcfg_select(u16 number)
{
	out16(PORT_SELECT, number);
}

u8 fwcfg_data(void)
{
	return in8(PORT_DATA);
}

void fwcfg_dma(u64 request_phys)
{
	out32(PORT_DMA_HIGH, __builtin_bswap32((u32)(request_phys >> 32)));
	out32(PORT_DMA_LOW, __builtin_bswap32((u32)request_phys));
}
