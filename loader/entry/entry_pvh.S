/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The entry point for a PVH virtual machine monitor, or for QEMU's -kernel after
 * firmware: 32-bit mode, flat segments, paging off, ebx = hvm_start_info.
 * Calls loader_direct(start_info, tsc) in 64-bit mode with the first 4 GiB
 * identity-mapped, interrupts off, no IDT yet.
 */
#define XEN_ELFNOTE_PHYS32_ENTRY 18
#define CR0_PE_PG 0x80000001
#define CR4_PAE 0x20
#define MSR_EFER 0xc0000080
#define EFER_LME 8

	.section .note.pvh, "a", @note
	.balign 4
	.long	4
	.long	8
	.long	XEN_ELFNOTE_PHYS32_ENTRY
	.asciz	"Xen"
	.quad	go_entry_pvh

	.text
	.code32
	.globl	go_entry_pvh
go_entry_pvh:
	rdtsc
	cli
	cld
	movl	%eax, %esi		/* time of the first instruction, in edi:esi */
	movl	%edx, %edi

	movl	$go_pml4, %eax
	movl	%eax, %cr3
	movl	$CR4_PAE, %eax
	movl	%eax, %cr4
	movl	$MSR_EFER, %ecx
	rdmsr
	btsl	$EFER_LME, %eax
	wrmsr
	movl	%cr0, %eax
	orl	$CR0_PE_PG, %eax
	movl	%eax, %cr0
	lgdt	go_gdt_pointer
	ljmp	$0x10, $entry_64

	.code64
entry_64:
	movl	$0x18, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	xorl	%eax, %eax
	movl	%eax, %fs
	movl	%eax, %gs
	leaq	go_stack_end(%rip), %rsp

	shlq	$32, %rdi
	movl	%esi, %esi
	orq	%rdi, %rsi
	movl	%ebx, %edi
	call	loader_direct
1:	cli
	hlt
	jmp	1b

	.section .note.GNU-stack, "", @progbits
