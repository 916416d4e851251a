/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * void cpu_round_riscv(struct cpu_state *state, uint64_t steps);
 *
 * Loads the registers of a user program from @state, changes all of them in each of
 * @steps steps without touching memory, and stores them again. For milliseconds the
 * registers are the only copy of what they hold. t6 counts; sp, gp and tp are those of
 * the program, as a signal handler needs them.
 *
 * cpu_state.c has the layout of struct cpu_state and computes the same in C.
 */
#define STATE_GENERAL 0		/* 27 registers in the order of the lists below */
#define STATE_FCSR 216
#define STATE_FLOAT 224		/* f0 to f31 */

	.macro each_general instruction, base
	.set	n, STATE_GENERAL
	.irp	r, ra, t0, t1, t2, s0, s1, a1, a2, a3, a4, a5, a6, a7, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, t3, t4, t5
	\instruction \r, n(\base)
	.set	n, n + 8
	.endr
	.endm

	.macro each_float instruction, base
	.set	n, STATE_FLOAT
	.irp	r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\instruction f\r, n(\base)
	.set	n, n + 8
	.endr
	.endm

	.macro each_saved instruction
	.set	n, 8
	.irp	r, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
	\instruction \r, n(sp)
	.set	n, n + 8
	.endr
	.endm

	.macro each_saved_float instruction
	.set	n, 112
	.irp	r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	\instruction fs\r, n(sp)
	.set	n, n + 8
	.endr
	.endm

	.macro sign_next to, from
	fsgnjx.d f\to, f\to, f\from
	.endm

	/* to += from, and a number of its own */
	.macro mix to, from, number
	add	\to, \to, \from
	addi	\to, \to, \number
	.endm

	.text
	.globl	cpu_round_riscv
	.type	cpu_round_riscv, @function
cpu_round_riscv:
	addi	sp, sp, -224
	sd	a0, 0(sp)
	each_saved sd
	each_saved_float fsd
	frcsr	t0
	sd	t0, 208(sp)

	mv	t6, a1
	lw	t0, STATE_FCSR(a0)
	fscsr	t0
	each_float fld, a0
	each_general ld, a0
	ld	a0, STATE_GENERAL + 8 * 26(a0)
1:
	beqz	t6, 2f
	addi	t6, t6, -1
	mix	ra, t0, 1
	mix	t0, t1, 3
	mix	t1, t2, 5
	mix	t2, s0, 7
	mix	s0, s1, 9
	mix	s1, a1, 11
	mix	a1, a2, 13
	mix	a2, a3, 15
	mix	a3, a4, 17
	mix	a4, a5, 19
	mix	a5, a6, 21
	mix	a6, a7, 23
	mix	a7, s2, 25
	mix	s2, s3, 27
	mix	s3, s4, 29
	mix	s4, s5, 31
	mix	s5, s6, 33
	mix	s6, s7, 35
	mix	s7, s8, 37
	mix	s8, s9, 39
	mix	s9, s10, 41
	mix	s10, s11, 43
	mix	s11, t3, 45
	mix	t3, t4, 47
	mix	t4, t5, 49
	mix	t5, a0, 51
	mix	a0, ra, 53
	/* Signs only: other bits would be rounded. */
	.irp	r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	.set	next, \r + 1
	.altmacro
	sign_next \r, %next
	.noaltmacro
	.endr
	fsgnjx.d f31, f31, f0
	j	1b
2:
	/* t6 is zero; the state's address takes its place. */
	ld	t6, 0(sp)
	each_general sd, t6
	sd	a0, STATE_GENERAL + 8 * 26(t6)
	each_float fsd, t6
	frcsr	t0
	sw	t0, STATE_FCSR(t6)

	ld	t0, 208(sp)
	fscsr	t0
	each_saved_float fld
	each_saved ld
	addi	sp, sp, 224
	ret
	.size	cpu_round_riscv, . - cpu_round_riscv

	.section .note.GNU-stack, "", @progbits
