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

#endif /* LOADER_FWCFG_H */
