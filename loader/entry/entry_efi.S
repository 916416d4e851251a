/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The entry point that firmware calls: 64-bit mode, rcx = image handle, rdx = system
 * table, the image at any address. Corrects the addresses in data, and calls
 * loader_efi(image, system, tsc); what that returns goes to firmware.
 */
#define CR4_PAE 0x20
#define RELA_BYTES 24

	.text
	.globl	go_entry_efi
go_entry_efi:
	movq	%rdx, %r8
	rdtsc				/* time of the first instruction */
	shlq	$32, %rdx
	orq	%rax, %rdx

	/* Linked at 0: each place gets base + addend (all are R_X86_64_RELATIVE). */
	leaq	go_image_base(%rip), %r9
	leaq	go_rela_begin(%rip), %r10
	leaq	go_rela_end(%rip), %r11
1:	cmpq	%r11, %r10
	jae	2f
	movq	(%r10), %rax
	addq	%r9, %rax
	pushq	%rcx
	movq	16(%r10), %rcx
	addq	%r9, %rcx
	movq	%rcx, (%rax)
	popq	%rcx
	addq	$RELA_BYTES, %r10
	jmp	1b

	/* Firmware's convention keeps rdi and rsi, ours does not. */
2:	pushq	%rdi
	pushq	%rsi
	subq	$8, %rsp
	movq	%rcx, %rdi
	movq	%r8, %rsi
	call	loader_efi
	addq	$8, %rsp
	popq	%rsi
	popq	%rdi
	ret

	/*
	 * go_leave_firmware(front rdi): after firmware's end, the state in which
	 * entry_pvh.S calls C: own stack, descriptors and page tables, interrupts off.
	 */
	.globl	go_leave_firmware
go_leave_firmware:
	cli
	cld
	leaq	go_stack_end(%rip), %rsp
	leaq	go_pml4(%rip), %rax
	movq	%rax, %cr3
	movl	$CR4_PAE, %eax
	movq	%rax, %cr4
	lgdt	go_gdt_pointer(%rip)
	movl	$0x18, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	xorl	%eax, %eax
	movl	%eax, %fs
	movl	%eax, %gs
	pushq	$0x10
	leaq	3f(%rip), %rax
	pushq	%rax
	lretq
3:	call	loader_main
4:	cli
	hlt
	jmp	4b

	.section .note.GNU-stack, "", @progbits
