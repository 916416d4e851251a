/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the loader enters a committed image.
 *
 * Input: 64-bit mode, interrupts off, other CPUs waiting for SIPI, NVRAM and the
 * first 4 GiB identity-mapped by the loader's page table; rdi = physical address
 * of the record's body, rsi = that of the boot note.
 * Output: a return to rem_context_return, on the stack that was saved.
 *
 * Law of this file: no stack, no per-CPU data and no exception until the context
 * of the boot CPU is loaded; only rip-relative addresses before the jump to the
 * kernel's own mapping.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>
#include <asm/msr-index.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include <asm/processor-flags.h>
#include <asm/segment.h>
#include <asm/unwind_hints.h>
#include "../machine.h"

.code64
.text

SYM_CODE_START(rem_go_entry)
	UNWIND_HINT_END_OF_STACK
	ANNOTATE_NOENDBR
	cli
	cld

	/* The kernel's tables use NX bits, which are reserved without NXE. */
	movl	$MSR_EFER, %ecx
	rdmsr
	btsl	$_EFER_SCE, %eax
	btsl	$_EFER_NX, %eax
	wrmsr

	/* A table with this page identity-mapped and the kernel's mapping. */
	movq	rem_go_mapped_address(%rip), %rax
	movq	REM_BODY_ENTRY_CR3(%rdi), %rcx
	movq	%rcx, %cr3
	ANNOTATE_RETPOLINE_SAFE
	jmp	*%rax

SYM_INNER_LABEL(rem_go_mapped, SYM_L_GLOBAL)
	UNWIND_HINT_END_OF_STACK
	ANNOTATE_NOENDBR
	movq	$rem_contexts, %rbx

/* rbx = this CPU's context, in the kernel's mapping. */
SYM_INNER_LABEL(rem_go_context, SYM_L_GLOBAL)
	UNWIND_HINT_END_OF_STACK
	ANNOTATE_NOENDBR

	/*
	 * PCIDE may be set only while CR3 has PCID 0, and only a change of PGE
	 * flushes global entries: so first the CPU's own tables, then CR4
	 * without PGE, then all of CR4, then CR3 with its PCID.
	 */
	movq	REM_CTX_CR3(%rbx), %rax
	movq	%rax, %rcx
	andq	$~0xfff, %rax
	movq	%rax, %cr3
	movq	REM_CTX_CR4(%rbx), %rax
	movq	%rax, %rdx
	andq	$~(X86_CR4_PGE | X86_CR4_PCIDE), %rax
	movq	%rax, %cr4
	movq	%rdx, %cr4
	movq	%rcx, %cr3

	movq	REM_CTX_CR0(%rbx), %rax
	movq	%rax, %cr0
	movl	$MSR_EFER, %ecx
	movl	REM_CTX_EFER(%rbx), %eax
	movl	(REM_CTX_EFER + 4)(%rbx), %edx
	wrmsr

	lgdt	REM_CTX_GDT(%rbx)
	movl	$__KERNEL_DS, %eax
	movl	%eax, %ss
	xorl	%eax, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %fs
	movl	%eax, %gs
	movl	$MSR_GS_BASE, %ecx
	movl	REM_CTX_GS_BASE(%rbx), %eax
	movl	(REM_CTX_GS_BASE + 4)(%rbx), %edx
	wrmsr
	lidt	REM_CTX_IDT(%rbx)

	/* The loader's code segment may differ from the kernel's. */
	movq	REM_CTX_RSP(%rbx), %rsp
	pushq	$__KERNEL_CS
	pushq	$rem_context_return
	lretq
SYM_CODE_END(rem_go_entry)

/*
 * head_64.S sends the other CPUs here: kernel mapping, own GS base, a stack below
 * the saved one.
 */
SYM_CODE_START(rem_go_secondary)
	UNWIND_HINT_END_OF_STACK
	ANNOTATE_NOENDBR
	movq	PER_CPU_VAR(rem_this_context), %rbx
	jmp	rem_go_context
SYM_CODE_END(rem_go_secondary)

	.section .rodata, "a"
	.balign 8
rem_go_mapped_address:
	.quad	rem_go_mapped
