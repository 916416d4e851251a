/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_HW_TPM_H
#define LOADER_HW_TPM_H

#include "../core/acpi.h"
#include "../core/tpm.h"

enum tpm_place {
	TPM_ABSENT,  /* ACPI lists none */
	TPM_UNKNOWN, /* its interface is neither a command buffer nor a FIFO */
	TPM_FOUND,
};

/*
 * Make @ret_tpm talk to the TPM that ACPI lists. @map is firmware's: what the TPM says
 * of its buffers must not lead into memory that is in use.
 */
enum tpm_place tpm_find(const struct acpi_tables *acpi, const struct map *map,
			struct tpm *ret_tpm);

/* How long the loader has waited for it, in ticks of the TSC. */
u64 tpm_waited_ticks(void);

#endif /* LOADER_HW_TPM_H */
