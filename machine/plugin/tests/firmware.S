/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that does what UEFI firmware does before it starts a loader: the second CPU begins with a
 * locked instruction on a misaligned address, the first waits for it and then for a while by its
 * clock, both with PAUSE. From "loop" on it is as guest.S.
 */
#define COUNTERS 0x200000
#define AP_CODE 0x8000
#define AP_DATA_SEGMENT 0x3000
#define STARTED 0x30001
#define APIC 0xfee00000
#define WAIT_NS 100000000

	.section .multiboot, "a"
	.align 4
	.long 0x1badb002, 0, -0x1badb002

	.text
	.code32
	.globl _start, behind, loop
_start:
	cli
	movl $0, STARTED
	mov $ap_begin, %esi
	mov $AP_CODE, %edi
	mov $(ap_end - ap_begin), %ecx
	rep movsb
	movl $0x000c4500, APIC + 0x300
	movl $(0x000c4600 | (AP_CODE >> 12)), APIC + 0x300
1:	pause
	cmpl $1, STARTED
	jne 1b
	rdtsc
	mov %eax, %esi
2:	pause
	rdtsc
	sub %esi, %eax
	cmp $WAIT_NS, %eax
	jb 2b
	jmp behind

behind:
	mov $COUNTERS, %ebx
	jmp loop
	/* a part of the bytes that are looked for */
	.fill 16, 1, 0xcc
loop:
	incl (%ebx)
	incl 4(%ebx)
	incl 8(%ebx)
	jmp loop

	.code16
ap_begin:
	mov $AP_DATA_SEGMENT, %ax
	mov %ax, %ds
	lock incl STARTED - (AP_DATA_SEGMENT << 4)
4:	cli
	hlt
	jmp 4b
ap_end:
	.section .note.GNU-stack, "", @progbits
