/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One stub of 16 bytes for each exception. */
	.text
	.balign	16
	.globl	fault_stubs
fault_stubs:
	.set	vector, 0
	.rept	32
	.balign	16
	/* 8, 10-14, 17, 21, 29 and 30 push an error code; push one for others. */
	.if	(0x60227d00 >> vector) & 1
	.else
	pushq	$0
	.endif
	pushq	$vector
	jmp	fault_common
	.set	vector, vector + 1
	.endr

	.balign	16
fault_common:
	popq	%rdi
	popq	%rsi
	popq	%rdx
	andq	$~15, %rsp
	call	fault_report

	.section .note.GNU-stack, "", @progbits
