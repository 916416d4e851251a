/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* QEMU's fw_cfg through its DMA interface (docs/specs/fw_cfg.rst). */
#ifndef LOADER_FWCFG_H
#define LOADER_FWCFG_H

#include "../core/base.h"

struct fwcfg_file {
	u32 bytes;
	u16 select;
};

/* False if there is no fw_cfg, or none with DMA. Call first. */
bool fwcfg_open(void);

/* False if there is no file @name. */
bool fwcfg_find(const char *name, struct fwcfg_file *ret_file);

/* Read [offset, offset + bytes) of @file, which must be within it. */
bool fwcfg_read(const struct fwcfg_file *file, u32 offset, void *to, u32 bytes);

/* Its registers, wherever a machine has them: select an item, take its next byte. */
void fwcfg_select(u16 number);
u8 fwcfg_data(void);
void fwcfg_dma(u64 request_phys);

#endif /* LOADER_FWCFG_H */
