/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * void cpu_round_sse(struct cpu_state *state, uint64_t steps);
 * void cpu_round_avx(struct cpu_state *state, uint64_t steps);
 *
 * Loads every register of a user program from @state, changes all of them in
 * each of @steps steps without touching memory, and stores them again. For
 * milliseconds the registers are the only copy of what they hold, the carry
 * flag included: the loop counts with lea and jrcxz, which leave flags alone.
 *
 * rem-cpu.c has the layout of struct cpu_state and computes the same in C.
 */
#define STATE_GENERAL 0		/* rax rbx rdx rsi rdi rbp r8..r15 */
#define STATE_FLAGS 112
#define STATE_MXCSR 120
#define STATE_X87_CONTROL 124
#define STATE_X87 128		/* 8 * 16 bytes, st(0) first */
#define STATE_X87_ENV 256	/* 28 bytes: fnstenv */
#define STATE_VECTOR 288	/* 16 * 32 bytes */

	.macro move_vector operation, avx, to_memory
	.set n, 0
	.irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	.if \avx
	.if \to_memory
	vmovdqu	%ymm\r, STATE_VECTOR + n(%rcx)
	.else
	vmovdqu	STATE_VECTOR + n(%rdi), %ymm\r
	.endif
	.else
	.if \to_memory
	movdqu	%xmm\r, STATE_VECTOR + n(%rcx)
	.else
	movdqu	STATE_VECTOR + n(%rdi), %xmm\r
	.endif
	.endif
	.set n, n + 32
	.endr
	.endm

	.macro add_vector avx, to, from
	.if \avx
	vpaddq	%ymm\from, %ymm\to, %ymm\to
	.else
	paddq	%xmm\from, %xmm\to
	.endif
	.endm

	.macro cpu_round name, avx
	.globl	\name
	.type	\name, @function
\name:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	sub	$16, %rsp
	stmxcsr	8(%rsp)
	mov	%rdi, (%rsp)
	mov	%rsi, %rcx

	move_vector load, \avx, 0
	ldmxcsr	STATE_MXCSR(%rdi)
	fninit
	fldcw	STATE_X87_CONTROL(%rdi)
	.set	n, 7
	.rept	8
	fldt	STATE_X87 + 16 * n(%rdi)
	.set	n, n - 1
	.endr

	pushq	STATE_FLAGS(%rdi)
	mov	0(%rdi), %rax
	mov	8(%rdi), %rbx
	mov	16(%rdi), %rdx
	mov	24(%rdi), %rsi
	mov	40(%rdi), %rbp
	mov	48(%rdi), %r8
	mov	56(%rdi), %r9
	mov	64(%rdi), %r10
	mov	72(%rdi), %r11
	mov	80(%rdi), %r12
	mov	88(%rdi), %r13
	mov	96(%rdi), %r14
	mov	104(%rdi), %r15
	mov	32(%rdi), %rdi
	popfq
1:
	jrcxz	3f			/* reaches only 127 bytes */
	jmp	4f
3:
	jmp	2f
4:
	lea	-1(%rcx), %rcx
	adc	%rbx, %rax
	adc	%rax, %rbx
	lea	1(%rdx, %rdx, 2), %rdx
	lea	3(%rsi, %rsi, 4), %rsi
	lea	5(%rdi, %rdi, 8), %rdi
	lea	7(%rbp, %rbp, 2), %rbp
	lea	9(%r8, %r8, 4), %r8
	lea	11(%r9, %r9, 8), %r9
	lea	13(%r10, %r10, 2), %r10
	lea	15(%r11, %r11, 4), %r11
	lea	17(%r12, %r12, 8), %r12
	lea	19(%r13, %r13, 2), %r13
	lea	21(%r14, %r14, 4), %r14
	lea	23(%r15, %r15, 8), %r15
	.irp	r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
	.set	next, \r + 1
	.altmacro
	add_next \avx, \r, %next
	.noaltmacro
	.endr
	add_vector \avx, 15, 0
	fincstp
	fchs
	jmp	1b
2:
	mov	(%rsp), %rcx
	mov	%rax, 0(%rcx)
	mov	%rbx, 8(%rcx)
	mov	%rdx, 16(%rcx)
	mov	%rsi, 24(%rcx)
	mov	%rdi, 32(%rcx)
	mov	%rbp, 40(%rcx)
	mov	%r8, 48(%rcx)
	mov	%r9, 56(%rcx)
	mov	%r10, 64(%rcx)
	mov	%r11, 72(%rcx)
	mov	%r12, 80(%rcx)
	mov	%r13, 88(%rcx)
	mov	%r14, 96(%rcx)
	mov	%r15, 104(%rcx)
	pushfq
	popq	STATE_FLAGS(%rcx)
	cld
	fnstenv	STATE_X87_ENV(%rcx)
	.set	n, 0
	.rept	8
	fstpt	STATE_X87 + 16 * n(%rcx)
	.set	n, n + 1
	.endr
	fninit
	stmxcsr	STATE_MXCSR(%rcx)
	ldmxcsr	8(%rsp)
	move_vector store, \avx, 1
	.if \avx
	vzeroupper
	.endif
	add	$16, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.size	\name, . - \name
	.endm

	.macro add_next avx, to, from
	add_vector \avx, \to, \from
	.endm

	.text
	cpu_round cpu_round_sse, 0
	cpu_round cpu_round_avx, 1

	.section .note.GNU-stack, "", @progbits
