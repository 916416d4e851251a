/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_HOLD_H
#define LOADER_HOLD_H

#include "../core/record.h"

/*
 * struct hold_steps
 * @look: describes the machine again, and decides again
 * @note: writes the difference into the boot note
 */
struct hold_steps {
	void (*look)(void);
	void (*note)(void);
};

/*
 * The machine differs, and the policy of the image is to hold it: look again each
 * second, ask after hold_s of them, and go on looking. Returns when @decision is
 * another one, or when the image is to be given up. Consumes nothing, so that the
 * image is still there after any loss of power.
 */
void hold(const struct decision *decision, u16 timer_port,
	  const struct hold_steps *steps);

/* Both sides of the difference, if the decision has one. */
void print_difference(const struct decision *decision);

#endif /* LOADER_HOLD_H */
