/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest whose executed instructions can be counted from memory alone.
 *
 * The first CPU adds one to three words in turn and jumps back: after n
 * instructions from "loop" the words are (n+3)/4, (n+2)/4 and (n+1)/4. If the
 * second CPU exists it does the same elsewhere, in real mode. Should the word
 * at "mode" be 1, the first CPU halts for ever instead, with its APIC timer
 * running so that virtual time has something to jump to.
 *
 * Loaded by QEMU's multiboot loader: 32-bit, flat, no paging, interrupts off.
 */
#define COUNTERS 0x200000
#define MODE 0x200010
#define AP_CODE 0x8000
#define AP_DATA_SEGMENT 0x3000
#define APIC 0xfee00000

	.section .multiboot, "a"
	.align 4
	.long 0x1badb002, 0, -0x1badb002

	.text
	.code32
	.globl _start, loop, halted, ap_loop_offset
_start:
	cli
	/* the second CPU: INIT, then STARTUP at page AP_CODE */
	mov $ap_begin, %esi
	mov $AP_CODE, %edi
	mov $(ap_end - ap_begin), %ecx
	rep movsb
	movl $0x000c4500, APIC + 0x300
	movl $(0x000c4600 | (AP_CODE >> 12)), APIC + 0x300
	/* all of the guest's state is what "loop" adds to */
	mov $COUNTERS, %ebx
	cmpl $1, MODE
	je halted
loop:
	incl (%ebx)
	incl 4(%ebx)
	incl 8(%ebx)
	jmp loop

halted:
	/* the mark of user programs looks for these */
	mov $0x2f8, %dx
	mov $0x55, %al
	out %al, %dx
	mov $0x7e, %al
	out %al, %dx
	/* APIC on; timer periodic, masked by CLI only, 1,000,000 bus cycles */
	movl $0x1ff, APIC + 0xf0
	movl $0xb, APIC + 0x3e0
	movl $0x20020, APIC + 0x320
	movl $1000000, APIC + 0x380
1:	hlt
	jmp 1b

	.code16
ap_begin:
	mov $AP_DATA_SEGMENT, %ax
	mov %ax, %ds
	xor %bx, %bx
ap_loop:
	incl (%bx)
	incl 4(%bx)
	incl 8(%bx)
	jmp ap_loop
ap_end:
	.set ap_loop_offset, ap_loop - ap_begin + AP_CODE
	.section .note.GNU-stack, "", @progbits
