/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * int checkpoint_here(struct checkpoint_registers *): what a function may not
 * change (psABI for x86-64, 3.2.1). Returns 0, and once more with 1 for each
 * checkpoint_return().
 */
	.text
	.globl	checkpoint_here
	.type	checkpoint_here, @function
checkpoint_here:
	mov	%rbx, 0(%rdi)
	mov	%rbp, 8(%rdi)
	mov	%r12, 16(%rdi)
	mov	%r13, 24(%rdi)
	mov	%r14, 32(%rdi)
	mov	%r15, 40(%rdi)
	lea	8(%rsp), %rax
	mov	%rax, 48(%rdi)
	mov	(%rsp), %rax
	mov	%rax, 56(%rdi)
	xor	%eax, %eax
	ret
	.size	checkpoint_here, . - checkpoint_here

	/* The stack must have its content of that moment. */
	.globl	checkpoint_return
	.type	checkpoint_return, @function
checkpoint_return:
	mov	0(%rdi), %rbx
	mov	8(%rdi), %rbp
	mov	16(%rdi), %r12
	mov	24(%rdi), %r13
	mov	32(%rdi), %r14
	mov	40(%rdi), %r15
	mov	48(%rdi), %rsp
	mov	$1, %eax
	jmp	*56(%rdi)
	.size	checkpoint_return, . - checkpoint_return

	/* void checkpoint_on(void *stack, void (*run)(void)): does not return. */
	.globl	checkpoint_on
	.type	checkpoint_on, @function
checkpoint_on:
	mov	%rdi, %rsp
	xor	%ebp, %ebp
	call	*%rsi
	ud2
	.size	checkpoint_on, . - checkpoint_on

	.section .note.GNU-stack, "", @progbits
