/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What each instruction set has its own way for until the decision. */
#ifndef LOADER_PARTS_H
#define LOADER_PARTS_H

#include "../core/desc.h"
#include "machine.h"

/* First of all: exceptions are reported, checksums work. */
void parts_open(void);

/* Find what firmware tells of the machine; prints and halts if there is nothing. */
void tables_find(struct machine *machine);

/*
 * Parse the first BZ_HEAD_BYTES of the kernel's file. NULL and machine->kernel filled,
 * or a message that says what is wrong.
 */
const char *kernel_parse(struct machine *machine);

/*
 * What builds of the kernel are told apart by: value[0], and of value[3] and value[4] what
 * makes it quicker to find the next time (REM_DESC_KERNEL). The others are left alone.
 */
void kernel_identify(const struct machine *machine, u64 value[5]);

/* Add the CPUs and what they can do. */
void describe_cpus(const struct machine *machine, struct desc *desc);

/* Add what firmware tells of the rest of the machine. */
void describe_firmware(const struct machine *machine, struct desc *desc);

#endif /* LOADER_PARTS_H */
