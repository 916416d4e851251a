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

/* A sum of the kernel's file, by which builds are told apart. */
u64 kernel_sum(const struct machine *machine);

/* Add the CPUs and what they can do. */
void describe_cpus(const struct machine *machine, struct desc *desc);

/* Add what firmware tells of the rest of the machine. */
void describe_firmware(const struct machine *machine, struct desc *desc);

#endif /* LOADER_PARTS_H */
