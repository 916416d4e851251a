/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Registers of RISC-V: general ones but for those that a signal handler needs,
 * floating-point ones, rounding mode and exceptions.
 */
#include "../check.h"

#include <stdlib.h>
#include <string.h>

#include "../cpu_state.h"

#define GENERAL_COUNT 27
#define FLOAT_COUNT 32
/* Some 90 instructions each: about 4 ms at 1 GIPS. */
#define STEPS 50000
#define SIGN (1ull << 63)
/* Rounding towards zero, and two exceptions: not what a new thread gets. */
#define FCSR_UNUSUAL 0x23

struct cpu_state {
	uint64_t general[GENERAL_COUNT];
	uint32_t fcsr;
	uint32_t pad;
	uint64_t floating[FLOAT_COUNT];
};

_Static_assert(offsetof(struct cpu_state, fcsr) == 216, "cpu_rounds.S");
_Static_assert(offsetof(struct cpu_state, floating) == 224, "cpu_rounds.S");

void cpu_round_riscv(struct cpu_state *state, uint64_t steps);

struct cpu_state *cpu_state_alloc(void)
{
	return malloc(sizeof(struct cpu_state));
}

void cpu_state_copy(struct cpu_state *to, const struct cpu_state *from)
{
	*to = *from;
}

void cpu_state_make(struct cpu_state *state, uint64_t seed)
{
	check_fill(state, sizeof(*state), seed);
	state->fcsr = FCSR_UNUSUAL;
	state->pad = 0;
}

void cpu_round(struct cpu_state *state)
{
	cpu_round_riscv(state, STEPS);
}

void cpu_expect(struct cpu_state *state)
{
	uint64_t *general = state->general, *floating = state->floating;

	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < GENERAL_COUNT; i++)
			general[i] += general[(i + 1) % GENERAL_COUNT] +
				      (uint64_t)(2 * i + 1);
		for (int i = 0; i < FLOAT_COUNT; i++)
			floating[i] ^= floating[(i + 1) % FLOAT_COUNT] & SIGN;
	}
}

void cpu_compare(const struct cpu_state *is, const struct cpu_state *should,
		 long cpu, uint64_t round)
{
	for (int i = 0; i < GENERAL_COUNT; i++)
		if (is->general[i] != should->general[i])
			check_fail("cpu=%ld round=%llu general register %d",
				   cpu, (unsigned long long)round, i);
	for (int i = 0; i < FLOAT_COUNT; i++)
		if (is->floating[i] != should->floating[i])
			check_fail("cpu=%ld round=%llu register f%d", cpu,
				   (unsigned long long)round, i);
	if (is->fcsr != should->fcsr)
		check_fail("cpu=%ld round=%llu fcsr %#x", cpu,
			   (unsigned long long)round, is->fcsr);
}

/* The thread pointer is the C library's: with a wrong one no thread finds its data. */
void cpu_base_set(unsigned long base)
{
	(void)base;
}

void cpu_base_check(long cpu, unsigned long base)
{
	(void)cpu;
	(void)base;
}

const char *cpu_vectors(void)
{
	return "double";
}
