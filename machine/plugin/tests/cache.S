/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that stores 1 to one line each, and flushes it in one way each:
 *
 *   line   after the store
 *   0      nothing
 *   1      CLWB, SFENCE
 *   2      CLFLUSH
 *   3      CLFLUSHOPT, MFENCE
 *   4      CLFLUSHOPT, a locked instruction
 *   5      MOVNTI, SFENCE
 *   6      CLWB, no fence
 *   7      MOVNTI, no fence
 *   8      nothing; by the second CPU
 *   9      nothing; to two lines at once
 *
 * The word at MODE selects what follows: 0 nothing, 1 WBINVD, 2 WBINVD and a second
 * store to line 0 and INVD. A byte on port 0x2f8 reports the end.
 *
 * Loaded by QEMU's multiboot loader: 32-bit, flat, no paging, interrupts off.
 */
#define LINES 0x30000
#define LINE(n) (LINES + (n) * 64)
#define ELSEWHERE 0x40000
#define MODE 0x200010
#define GO 0x200018
#define AP_CODE 0x8000
#define APIC 0xfee00000

	.section .multiboot, "a"
	.align 4
	.long 0x1badb002, 0, -0x1badb002

	.text
	.code32
	.globl _start, flushed, stored, done
_start:
	cli
	/* firmware is done; wait for the test */
1:	pause
	cmpl $0, GO
	je 1b
	mov $ap_begin, %esi
	mov $AP_CODE, %edi
	mov $(ap_end - ap_begin), %ecx
	rep movsb
	movl $0x000c4500, APIC + 0x300
	movl $(0x000c4600 | (AP_CODE >> 12)), APIC + 0x300
	mov $LINES, %ebx
	mov $1, %eax
	mov %eax, (%ebx)
	mov %eax, 64(%ebx)
	clwb 64(%ebx)
	sfence
	mov %eax, 0x80(%ebx)
	clflush 0x80(%ebx)
flushed:
	mov %eax, LINE(3)
	lea LINE(3), %edx
	clflushopt (%edx)
	mfence
	mov %eax, LINE(4)
	mov $64, %edx
	clflushopt (%ebx,%edx,4)
	lock incl ELSEWHERE
	movnti %eax, LINE(5)
	sfence
	mov $0x01010101, %edx
	mov %edx, LINE(10) - 2
	mov %eax, LINE(6)
	lea LINE(6), %edx
	clwb (%edx)
	movnti %eax, LINE(7)
	/* the second CPU, if there is one, has stored by the time its word is there */
	cmpl $1, MODE + 4
	jne stored
1:	pause
	cmpw $1, LINE(8)
	jne 1b
stored:
	cmpl $0, MODE
	je done
	wbinvd
	cmpl $1, MODE
	je done
	movl $2, LINES
	invd
done:
	mov $0x2f8, %dx
	mov $0x7e, %al
	out %al, %dx
1:	hlt
	jmp 1b

	.code16
ap_begin:
	mov $(LINE(8) >> 4), %ax
	mov %ax, %ds
	xor %bx, %bx
	mov $1, %ax
	mov %ax, (%bx)
1:	hlt
	jmp 1b
ap_end:
	.section .note.GNU-stack, "", @progbits
