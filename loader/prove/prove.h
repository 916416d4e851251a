/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the proofs share. CBMC looks at every value of what is nondeterministic: it
 * proves that no read or write leaves its object, that no loop runs on, and what is
 * asserted. small.sed says with which sizes.
 */
#ifndef LOADER_PROVE_H
#define LOADER_PROVE_H

#include <assert.h>

#include "../core/base.h"

/* Any value, each time. */
bool nondet_bool(void);
u32 nondet_u32(void);
u64 nondet_u64(void);

#endif /* LOADER_PROVE_H */
