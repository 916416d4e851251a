/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The registers of a program, of each instruction set: see rem-cpu.c. */
#ifndef CPU_STATE_H
#define CPU_STATE_H

#include <stdint.h>

struct cpu_state;

/* A state of this machine's registers; NULL without memory. */
struct cpu_state *cpu_state_alloc(void);
void cpu_state_copy(struct cpu_state *to, const struct cpu_state *from);

/* Fill it with what depends on @seed alone. */
void cpu_state_make(struct cpu_state *state, uint64_t seed);

/*
 * Load every register of a program from @state, change all of them for some
 * milliseconds without touching memory, and store them again.
 */
void cpu_round(struct cpu_state *state);

/* The same in C. */
void cpu_expect(struct cpu_state *state);

/* check_fail() if they differ. */
void cpu_compare(const struct cpu_state *is, const struct cpu_state *should,
		 long cpu, uint64_t round);

/* Give this thread a base register of its own, @base; then see that it has it. */
void cpu_base_set(unsigned long base);
void cpu_base_check(long cpu, unsigned long base);

/* What is kept in vector or floating-point registers, for the last line. */
const char *cpu_vectors(void);

#endif /* CPU_STATE_H */
