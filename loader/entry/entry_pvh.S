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
	lgdt	gdt_pointer
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
	leaq	stack_end(%rip), %rsp

	shlq	$32, %rdi
	movl	%esi, %esi
	orq	%rdi, %rsi
	movl	%ebx, %edi
	call	loader_direct
1:	cli
	hlt
	jmp	1b

	.section .rodata, "a"
	.balign 8
	/* Linux' 64-bit entry expects selectors 0x10 and 0x18. */
gdt:
	.quad	0
	.quad	0
	.quad	0x00af9b000000ffff
	.quad	0x00cf93000000ffff
gdt_pointer:
	.word	. - gdt - 1
	.long	gdt
	.long	0

	.data
	.balign	4096
	.globl	go_pml4
go_pml4:
	.quad	pdpt + 3
	.fill	511, 8, 0
pdpt:
	.quad	pd + 0x0003
	.quad	pd + 0x1003
	.quad	pd + 0x2003
	.quad	pd + 0x3003
	.fill	508, 8, 0
pd:
	.set	page, 0
	.rept	2048
	.quad	page + 0x83
	.set	page, page + 0x200000
	.endr

	.bss
	.balign	16
	.fill	0x10000, 1, 0
stack_end:

	.section .note.GNU-stack, "", @progbits
