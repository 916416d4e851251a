/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Multiboot header and the way into 64-bit mode with the low 4 GiB mapped one
 * to one. QEMU loads the flat binary at its link address; the firmware's map
 * comes with the multiboot information.
 */
#define MB_MAGIC 0x1badb002
/* address fields valid (bit 16), memory information wanted (bit 1) */
#define MB_FLAGS 0x00010002

	.section .head, "a"
	.balign 4
mb_header:
	.long MB_MAGIC
	.long MB_FLAGS
	.long -(MB_MAGIC + MB_FLAGS)
	.long mb_header
	.long shim_start
	.long 0			/* load to the end of the file */
	.long shim_end		/* and clear bss */
	.long entry32

	.section .text
	.code32
entry32:
	cli
	cld
	mov $stack_top, %esp
	mov %ebx, mb_info

	mov $pml4, %edi
	movl $pdpt + 3, (%edi)
	mov $pdpt, %edi
	movl $pds + 0x0003, 0(%edi)
	movl $pds + 0x1003, 8(%edi)
	movl $pds + 0x2003, 16(%edi)
	movl $pds + 0x3003, 24(%edi)

	mov $pds, %edi
	mov $0x83, %eax		/* present, writable, 2 MiB */
	mov $2048, %ecx
1:	mov %eax, (%edi)
	movl $0, 4(%edi)
	add $8, %edi
	add $0x200000, %eax
	loop 1b

	mov $0x20, %eax		/* PAE */
	mov %eax, %cr4
	mov $pml4, %eax
	mov %eax, %cr3
	mov $0xc0000080, %ecx	/* EFER.LME */
	rdmsr
	or $0x100, %eax
	wrmsr
	mov $0x80000011, %eax	/* PG, ET, PE */
	mov %eax, %cr0
	lgdt gdt_pointer
	ljmp $0x10, $entry64

	.code64
entry64:
	mov $0x18, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov mb_info(%rip), %edi
	call shim_main
1:	hlt
	jmp 1b

/* enter_kernel(entry, boot_params): the 64-bit boot protocol */
	.globl enter_kernel
enter_kernel:
	mov %rdi, %rax
	jmp *%rax

	.section .rodata
	.balign 8
gdt:
	.quad 0
	.quad 0
	.quad 0x00af9b000000ffff	/* 0x10: 64-bit code, as __BOOT_CS */
	.quad 0x00cf93000000ffff	/* 0x18: data, as __BOOT_DS */
gdt_pointer:
	.word . - gdt - 1
	.long gdt

	.section .bss
	.balign 4096
pml4:	.skip 4096
pdpt:	.skip 4096
pds:	.skip 4 * 4096
	.skip 16384
stack_top:
mb_info: .skip 4

	.section .note.GNU-stack, "", @progbits
