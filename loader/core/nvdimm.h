/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The bytes on the wire of an NVDIMM-N's controller (format/rem_nvdimm.h). */
#ifndef LOADER_CORE_NVDIMM_H
#define LOADER_CORE_NVDIMM_H

#include "../../format/rem_image.h"
#include "../../format/rem_nvdimm.h"
#include "base.h"

/* True if @byte is a status; all others are ignored. */
static inline bool nvdimm_is_status(u8 byte)
{
	return !__builtin_parity(byte) && !(byte & REM_NVDIMM_FROM_MACHINE) &&
	       (byte & REM_NVDIMM_ANSWER);
}

static inline u8 nvdimm_state(u8 status)
{
	return (status & REM_NVDIMM_STATE_MASK) >> REM_NVDIMM_STATE_SHIFT;
}

/*
 * Why DRAM cannot have the content that a Stop left, by the state after the
 * restore; 0 = it has.
 */
static inline u32 nvdimm_reason(u8 status)
{
	switch (nvdimm_state(status)) {
	case REM_NVDIMM_RESTORED:
		return 0;
	case REM_NVDIMM_EMPTY:
		return REM_COLD_NVDIMM_EMPTY;
	case REM_NVDIMM_PARTIAL:
		return REM_COLD_NVDIMM_PARTIAL;
	default:
		return REM_COLD_NVDIMM_FAILED;
	}
}

#endif /* LOADER_CORE_NVDIMM_H */
