/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The smallest guest that knows the wire of PWR_OK: echoes each status byte,
 * and when PWR_OK drops reports REM_PWR_STOPPED and halts. On the console it
 * says R when it runs, and obeys one byte:
 *   p  a planned Stop: reports without a drop      o  switches the machine off
 *   s  becomes deaf to the wire                    t  a triple fault
 *   h  halts without a word
 * It is no loader and keeps nothing: with it the tests of the machine need
 * neither kernel nor root image.
 */
	.code32
	.globl _start
	.section .text
	.align 4
	.long 0x1badb002, 0, -0x1badb002
_start:	movw $0x3fb, %dx		/* 8 bits, as the wire demands */
	movb $3, %al
	outb %al, %dx
	movw $0x2fb, %dx
	outb %al, %dx
	xorl %ebx, %ebx			/* deaf? */
	movw $0x3f8, %dx
	movb $'R', %al
	outb %al, %dx
poll:	movw $0x3fd, %dx
	inb %dx, %al
	testb $1, %al
	jnz typed
	testl %ebx, %ebx
	jnz poll
	movw $0x2fd, %dx
	inb %dx, %al
	testb $1, %al
	jz poll
	movw $0x2f8, %dx
	inb %dx, %al
	movb %al, %cl
	xorb $0xc0, %al			/* from the machine, parity made right */
	outb %al, %dx
	testb $1, %cl
	jnz poll
stop:	movw $0x2f8, %dx
	movb $0x7e, %al
	outb %al, %dx
halt:	cli
	hlt
	jmp halt
typed:	movw $0x3f8, %dx
	inb %dx, %al
	cmpb $'p', %al
	je stop
	cmpb $'s', %al
	je deaf
	cmpb $'h', %al
	je halt
	cmpb $'o', %al
	je off
	cmpb $'t', %al
	jne poll
	lidt nowhere
	int3
deaf:	incl %ebx
	movb $'D', %al
	outb %al, %dx
	jmp poll
off:	movw $0x604, %dx		/* PM1a control of q35 under SeaBIOS */
	movw $0x2000, %ax
	outw %ax, %dx
	jmp halt
nowhere: .word 0
	.long 0
