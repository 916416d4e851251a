/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_FAULT_H
#define LOADER_FAULT_H

/*
 * From now on an exception prints one line and halts, instead of a reset that
 * repeats the boot forever.
 */
void fault_open(void);

#endif /* LOADER_FAULT_H */
