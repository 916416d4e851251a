// SPDX-License-Identifier: GPL-2.0-only
/*
 * A reset by firmware. After the commit nothing of the image may change, and in Go
 * nothing may sleep or print, so the kernel's own reboot cannot be used.
 */
#include <asm/sbi.h>
#include "../stop/stop.h"

/** rem_reset_prepare - Context: process, once. */
void __init rem_reset_prepare(void)
{
}

/** rem_off_prepare - Context: process, once. */
void __init rem_off_prepare(void)
{
}

/** rem_off - does nothing: the supply cuts the power. Context: Stop. */
void rem_off(void)
{
}

/**
 * rem_reset - reset the machine, without a store to memory other than the stack
 *
 * Context: any, one hart, interrupts off. All others halt or do not run.
 */
void __noreturn rem_reset(void)
{
	for (;;)
		sbi_ecall(SBI_EXT_SRST, SBI_EXT_SRST_RESET,
			  SBI_SRST_RESET_TYPE_COLD_REBOOT,
			  SBI_SRST_RESET_REASON_NONE, 0, 0, 0, 0);
}
