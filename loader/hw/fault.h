/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef GO_FAULT_H
#define GO_FAULT_H

/*
 * From now on an exception is one line on the console and the end, not a reset
 * that boots in circles.
 */
void fault_open(void);

#endif /* GO_FAULT_H */
