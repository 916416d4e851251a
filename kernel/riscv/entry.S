/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the loader enters a committed image, and a call on another stack.
 */
#include <linux/linkage.h>
#include <asm/asm.h>
#include <asm/csr.h>

	.text

/*
 * Input: supervisor mode, no translation, interrupts off, all other harts stopped;
 * a0 = this hart's id, which is that of the boot CPU that was stopped.
 * Output: a return of __cpu_suspend_enter(), on the stack that was saved.
 *
 * Law: no stack and no address that is not relative to the code.
 */
SYM_CODE_START(rem_go_entry)
	csrw	CSR_IE, zero
	csrw	CSR_IP, zero
	lla	a1, rem_go_context
	REG_L	a1, 0(a1)
	tail	__cpu_resume_enter
SYM_CODE_END(rem_go_entry)

/*
 * void rem_call_on_stack(void *stack, void (*fn)(void *), void *arg)
 *
 * Calls fn(arg) with @stack as the end of its stack. Registers that fn has used are not
 * cleared: they do not survive the power, and only Stop calls this.
 *
 * Context: interrupts off.
 */
SYM_FUNC_START(rem_call_on_stack)
	addi	sp, sp, -16
	REG_S	ra, 8(sp)
	REG_S	s0, 0(sp)
	mv	s0, sp
	mv	sp, a0
	mv	a0, a2
	jalr	a1
	mv	sp, s0
	REG_L	s0, 0(sp)
	REG_L	ra, 8(sp)
	addi	sp, sp, 16
	ret
SYM_FUNC_END(rem_call_on_stack)

	.section .data, "aw"
	.balign 8
SYM_DATA(rem_go_context, .dword 0)
