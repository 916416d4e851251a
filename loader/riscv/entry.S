/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Firmware enters here in supervisor mode, with no translation and interrupts off:
 * a0 = this hart's id, a1 = the device tree. It has chosen the hart by chance; loader_fdt
 * continues on the first one, which is started with the same registers.
 */
	.section .text.entry, "ax", @progbits
	.globl	go_entry_riscv
go_entry_riscv:
	rdtime	a2
	csrw	sie, zero
	csrw	sip, zero
	csrw	satp, zero
	lla	t0, fault_entry
	csrw	stvec, t0
	lla	t0, boot_hart
	lw	t1, 0(t0)
	li	t2, -1
	lla	sp, go_stack_other_end
	bne	t1, t2, 1f		/* the second hart to come */
	mv	t1, a0
	sw	t1, 0(t0)
	j	loader_choose
1:
	/* loader_continue(id, tree, ticks): the first hart to come may be the one */
	.globl	loader_continue
loader_continue:
	lla	sp, go_stack_end
	tail	loader_fdt

	.text
	.balign 4
fault_entry:
	csrr	a0, scause
	csrr	a1, sepc
	csrr	a2, stval
	lla	sp, go_stack_end
	tail	fault_report

	/* image_enter(entry a0, body a1, note a2) */
	.globl	image_enter
image_enter:
	mv	t0, a0
	lla	t1, hart_id
	ld	a0, 0(t1)
	fence.i
	jr	t0

	/* linux_enter(entry a0, tree a1) */
	.globl	linux_enter
linux_enter:
	mv	t0, a0
	lla	t1, hart_id
	ld	a0, 0(t1)
	fence.i
	jr	t0

	.data
	.balign 8
boot_hart:
	.word	-1
	.word	0
	.globl	hart_id
hart_id:
	.dword	0

	.bss
	.balign 16
	.skip	0x10000
go_stack_end:
	.skip	0x4000
go_stack_other_end:

	.section .note.GNU-stack, "", @progbits
