/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The TPM, the judge of an image, and the key for the next one, in their order. */
#ifndef LOADER_MAIN_TRUST_H
#define LOADER_MAIN_TRUST_H

#include "../core/record.h"
#include "machine.h"

/* Before an image is judged: what its Stop has authenticated it by. */
void trust_open(const struct machine *machine);

/*
 * Change the reason of @decision if its image is not the one that a Stop has left. A
 * TPM that has not answered is asked again.
 */
void trust_judge(const struct machine *machine, struct decision *decision);

/*
 * Before an image is consumed: get the key of the next boot, and have the TPM give no
 * more to anybody until it is reset. @key_phys is where the kernel expects the key; 0: a
 * page is chosen, and kept from the kernel as machine->key_phys.
 */
void trust_leave(struct machine *machine, u64 key_phys);

/*
 * The last thing before a kernel runs, resumed or new: count, so that no image of an
 * earlier boot is entered any more, and put the key into its page. Without it the
 * kernel makes no image that could be entered. False if the TPM has not counted: then
 * an image that is entered could be entered again.
 */
bool trust_count(const struct machine *machine);

#endif /* LOADER_MAIN_TRUST_H */
