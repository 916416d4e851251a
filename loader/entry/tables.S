/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What each entry loads before it calls C: descriptors, page tables of the first
 * 4 GiB (paging.c adds more), and a stack. The loader may be at any address: what
 * has one in it is data, which the entry of a relocated loader corrects.
 */
	.data
	.balign 8
	/* Linux' 64-bit entry expects selectors 0x10 and 0x18. */
gdt:
	.quad	0
	.quad	0
	.quad	0x00af9b000000ffff
	.quad	0x00cf93000000ffff
	.globl	go_gdt_pointer
	.hidden	go_gdt_pointer
go_gdt_pointer:
	.word	. - gdt - 1
	.quad	gdt

	.balign	4096
	.globl	go_pml4
	.hidden	go_pml4
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
	.globl	go_stack_end
	.hidden	go_stack_end
go_stack_end:

	.section .note.GNU-stack, "", @progbits
