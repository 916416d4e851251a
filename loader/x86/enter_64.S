/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The two exits of the loader; neither returns. */
	.text
	/* linux_enter_64(entry rdi, params rsi): rsi is set already. */
	.globl	linux_enter_64
linux_enter_64:
	cli
	cld
	jmp	*%rdi

	/* image_enter(entry rdi, body rsi, note rdx) */
	.globl	image_enter
image_enter:
	cli
	cld
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	jmp	*%rax

	.section .note.GNU-stack, "", @progbits
