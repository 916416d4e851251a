/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Saves the registers of a CPU on its stack; after Go the CPU returns from here.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/unwind_hints.h>
#include "../machine.h"

.code64
.text

/*
 * int rem_save_and_call(struct rem_context *ctx, int (*fn)(void *), void *arg)
 *
 * Saves the callee-saved registers on this stack and the stack pointer in *ctx,
 * and calls fn(arg) on the same stack below them. If fn returns, its error is
 * returned. If fn commits, it does not return: after Go execution continues at
 * rem_context_return on the same stack, and 0 is returned.
 *
 * Context: any CPU, interrupts off.
 */
SYM_FUNC_START(rem_save_and_call)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushfq
	movq	%rsp, REM_CTX_RSP(%rdi)
	movq	%rsi, %rax
	movq	%rdx, %rdi
	CALL_NOSPEC rax
.Lrestore:
	popfq
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	RET
SYM_INNER_LABEL(rem_context_return, SYM_L_GLOBAL)
	ANNOTATE_NOENDBR
#ifdef CONFIG_KASAN_STACK
	/* The frames of fn() below are poisoned, and it never returned. */
	movq	%rsp, %rdi
	call	kasan_unpoison_task_stack_below
#endif
	xorl	%eax, %eax
	jmp	.Lrestore
SYM_FUNC_END(rem_save_and_call)
STACK_FRAME_NON_STANDARD rem_save_and_call

/*
 * void rem_call_on_stack(void *stack, void (*fn)(void *), void *arg)
 *
 * Calls fn(arg) with @stack as the end of its stack, and clears the registers that fn
 * may leave with its secrets.
 *
 * Context: interrupts off.
 */
SYM_FUNC_START(rem_call_on_stack)
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdi, %rsp
	movq	%rsi, %rax
	movq	%rdx, %rdi
	CALL_NOSPEC rax
	xorl	%eax, %eax
	xorl	%ecx, %ecx
	xorl	%edx, %edx
	xorl	%esi, %esi
	xorl	%edi, %edi
	xorl	%r8d, %r8d
	xorl	%r9d, %r9d
	xorl	%r10d, %r10d
	xorl	%r11d, %r11d
	movq	%rbp, %rsp
	popq	%rbp
	RET
SYM_FUNC_END(rem_call_on_stack)
STACK_FRAME_NON_STANDARD rem_call_on_stack
