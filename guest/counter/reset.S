/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * From the reset of a PC to count(): flat 32-bit segments, and a stack in low memory.
 */
	.set	STACK_END, 0x80000
	.set	CR0_PE, 1
	.set	CODE, 8
	.set	DATA, 16

	.section .reset, "ax"
	.code16
	jmp	real_mode

	.section .text.entry, "ax"
real_mode:
	cli
	/* CS is where the image is, and its limit is 64 KiB. */
	lgdtl	%cs:gdt_in_segment
	movl	%cr0, %eax
	orb	$CR0_PE, %al
	movl	%eax, %cr0
	ljmpl	$CODE, $protected_mode

	.code32
protected_mode:
	movw	$DATA, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movl	$STACK_END, %esp
	call	count

	.balign	8
gdt:
	.quad	0
	.quad	0x00cf9b000000ffff
	.quad	0x00cf93000000ffff

	.globl	gdt_pointer
gdt_pointer:
	.word	gdt_pointer - gdt - 1
	.long	gdt
	.section .note.GNU-stack, "", @progbits
