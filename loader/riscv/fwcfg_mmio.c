/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The registers of QEMU's fw_cfg in memory. */
#include "../entry/fwcfg.h"
#include "../hw/io.h"
#include "board.h"

#define DATA 0
#define SELECT 8
#define DMA 16

void fwcfg_select(u16 number)
{
	write16(board.fwcfg + SELECT, __builtin_bswap16(number));
}

u8 fwcfg_data(void)
{
	return read8(board.fwcfg + DATA);
}

void fwcfg_dma(u64 request_phys)
{
	write32(board.fwcfg + DMA,
		__builtin_bswap32((u32)(request_phys >> 32)));
	write32(board.fwcfg + DMA + 4, __builtin_bswap32((u32)request_phys));
}
