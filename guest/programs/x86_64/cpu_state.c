/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Registers of x86-64: general ones, carry and direction flag, AVX (or SSE) registers,
 * the x87 stack with its top, both control words, GS base.
 */
#include "../check.h"

#include <asm/prctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cpu_state.h"

#define GENERAL_COUNT 14
#define X87_COUNT 8
#define VECTOR_COUNT 16
/* 32 instructions each: about 3 ms at 1 GIPS. */
#define STEPS 100000
#define FLAG_CARRY 0x001
#define FLAG_DIRECTION 0x400
/* Masked exceptions, rounding towards zero: not what a new thread gets. */
#define MXCSR_ROUND_TO_ZERO 0x7f80
#define X87_ROUND_TO_ZERO 0x0f7f

struct cpu_state {
	uint64_t general[GENERAL_COUNT];
	uint64_t flags;
	uint32_t mxcsr;
	uint16_t x87_control;
	uint16_t pad;
	uint8_t x87[X87_COUNT][16];
	uint32_t x87_environment[8];
	uint64_t vector[VECTOR_COUNT][4];
};

_Static_assert(offsetof(struct cpu_state, flags) == 112, "cpu_rounds.S");
_Static_assert(offsetof(struct cpu_state, mxcsr) == 120, "cpu_rounds.S");
_Static_assert(offsetof(struct cpu_state, x87) == 128, "cpu_rounds.S");
_Static_assert(offsetof(struct cpu_state, x87_environment) == 256,
	       "cpu_rounds.S");
_Static_assert(offsetof(struct cpu_state, vector) == 288, "cpu_rounds.S");

/* Of each kind of vector registers: cpu_rounds.S */
void cpu_round_sse(struct cpu_state *state, uint64_t steps);
void cpu_round_avx(struct cpu_state *state, uint64_t steps);

static bool have_avx(void)
{
	return __builtin_cpu_supports("avx2");
}

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
	state->flags = 0x202 | (seed & 1 ? FLAG_DIRECTION : 0) |
		       (seed & 2 ? FLAG_CARRY : 0);
	state->mxcsr = MXCSR_ROUND_TO_ZERO;
	state->x87_control = X87_ROUND_TO_ZERO;
	for (int i = 0; i < X87_COUNT; i++) {
		/* A normal number: integer bit set, exponent not extreme. */
		state->x87[i][7] |= 0x80;
		state->x87[i][9] = (state->x87[i][9] & 0x80) | 0x3f;
		memset(state->x87[i] + 10, 0, 6);
	}
	if (!have_avx())
		for (int i = 0; i < VECTOR_COUNT; i++)
			state->vector[i][2] = state->vector[i][3] = 0;
}

static void step_general(struct cpu_state *state, uint64_t *carry)
{
	static const uint64_t factor[3] = { 3, 5, 9 };
	uint64_t *general = state->general;
	unsigned __int128 sum;

	sum = (unsigned __int128)general[0] + general[1] + *carry;
	general[0] = (uint64_t)sum;
	*carry = (uint64_t)(sum >> 64);
	sum = (unsigned __int128)general[1] + general[0] + *carry;
	general[1] = (uint64_t)sum;
	*carry = (uint64_t)(sum >> 64);
	for (int i = 2; i < GENERAL_COUNT; i++)
		general[i] = general[i] * factor[(i - 2) % 3] +
			     (uint64_t)(2 * i - 3);
}

static void step_vectors(struct cpu_state *state, int lanes)
{
	for (int i = 0; i < VECTOR_COUNT; i++)
		for (int lane = 0; lane < lanes; lane++)
			state->vector[i][lane] +=
				state->vector[(i + 1) % VECTOR_COUNT][lane];
}

void cpu_expect(struct cpu_state *state)
{
	const uint64_t steps = STEPS;
	uint64_t carry = state->flags & FLAG_CARRY;
	uint8_t x87[X87_COUNT][16];
	int lanes = have_avx() ? 4 : 2;

	for (uint64_t i = 1; i <= steps; i++) {
		step_general(state, &carry);
		step_vectors(state, lanes);
		state->x87[i % X87_COUNT][9] ^= 0x80;
	}
	memcpy(x87, state->x87, sizeof(x87));
	for (uint64_t i = 0; i < X87_COUNT; i++)
		memcpy(state->x87[i], x87[(i + steps) % X87_COUNT], 16);
	state->flags = (state->flags & ~(uint64_t)FLAG_CARRY) | carry;
}

void cpu_compare(const struct cpu_state *is, const struct cpu_state *should,
		 long cpu, uint64_t round)
{
	const uint64_t flags = FLAG_CARRY | FLAG_DIRECTION;
	unsigned int top = is->x87_environment[1] >> 11 & 7;

	for (int i = 0; i < GENERAL_COUNT; i++)
		if (is->general[i] != should->general[i])
			check_fail("cpu=%ld round=%llu general register %d",
				   cpu, (unsigned long long)round, i);
	for (int i = 0; i < VECTOR_COUNT; i++)
		if (memcmp(is->vector[i], should->vector[i], 32))
			check_fail("cpu=%ld round=%llu vector register %d", cpu,
				   (unsigned long long)round, i);
	for (int i = 0; i < X87_COUNT; i++)
		if (memcmp(is->x87[i], should->x87[i], 10))
			check_fail("cpu=%ld round=%llu x87 st(%d)", cpu,
				   (unsigned long long)round, i);
	if ((is->flags & flags) != (should->flags & flags))
		check_fail("cpu=%ld round=%llu flags %#llx", cpu,
			   (unsigned long long)round,
			   (unsigned long long)is->flags);
	if (top != STEPS % X87_COUNT)
		check_fail("cpu=%ld round=%llu x87 top %u", cpu,
			   (unsigned long long)round, top);
	if ((is->x87_environment[0] & 0xffff) != X87_ROUND_TO_ZERO)
		check_fail("cpu=%ld round=%llu x87 control %#x", cpu,
			   (unsigned long long)round, is->x87_environment[0]);
	if (is->mxcsr != MXCSR_ROUND_TO_ZERO)
		check_fail("cpu=%ld round=%llu mxcsr %#x", cpu,
			   (unsigned long long)round, is->mxcsr);
}

void cpu_round(struct cpu_state *state)
{
	if (have_avx())
		cpu_round_avx(state, STEPS);
	else
		cpu_round_sse(state, STEPS);
}

void cpu_base_set(unsigned long base)
{
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, base))
		check_fail_errno("arch_prctl");
}

void cpu_base_check(long cpu, unsigned long base)
{
	unsigned long now = 0;

	if (syscall(SYS_arch_prctl, ARCH_GET_GS, &now) || now != base)
		check_fail("cpu=%ld gs base %#lx, not %#lx", cpu, now, base);
}

const char *cpu_vectors(void)
{
	return have_avx() ? "ymm" : "xmm";
}
