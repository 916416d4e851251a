/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a CPU does with an exception that no flag masks, after it has written back
 * its caches: nothing that stores to memory. The frame is pushed onto the stack
 * below the saved context, which is dead.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/unwind_hints.h>

.code64
.text

/* NMI: ignored. */
SYM_CODE_START(rem_quiet_nmi)
	UNWIND_HINT_IRET_REGS
	ENDBR
	iretq
SYM_CODE_END(rem_quiet_nmi)

/* Machine check: what is on media may be wrong, so nothing is committed. */
SYM_CODE_START(rem_quiet_halt)
	UNWIND_HINT_IRET_REGS
	ENDBR
.Lhalt:
	cli
	hlt
	jmp	.Lhalt
SYM_CODE_END(rem_quiet_halt)

/* NMI while registers have a secret: counted, and raised again after it. */
SYM_CODE_START(rem_secret_nmi)
	UNWIND_HINT_IRET_REGS
	ENDBR
	incq	rem_secret_nmis(%rip)
	iretq
SYM_CODE_END(rem_secret_nmi)

.bss
.balign 8
SYM_DATA(rem_secret_nmis, .quad 0)
