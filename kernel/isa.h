/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Stop and Go ask of a processor and of what comes with it: each instruction set
 * has a folder that answers. Beside the functions of machine.h, stop.h and resume.h it
 * provides
 *
 * struct rem_context		the volatile state of one CPU; has @cpu
 * rem_ticks()			a counter that runs as long as there is power, not reordered
 * rem_ticks_khz()		its frequency, at least 1
 * rem_halt()			the end of a CPU's Stop: only a reset ends it
 * rem_caches_write_back()	all dirty lines of this CPU's caches, with a share of those
 *				that it has in common with others, to memory
 * rem_lines_write_back()	the lines of a range to memory, and wait for that
 * rem_caches_by_lines()	whether the former goes through memory line by line
 * rem_context_parked()		this CPU will start again on its saved stack
 * rem_interrupts_registers()	how many registers of devices Stop reads, beside the fixed ones
 * rem_sched_clock_stop()	the scheduler's clock does not count from here
 * rem_sched_clock_go()		to here
 * rem_core_save()		in Stop of generic power management, on the last CPU: what the
 *				system core has no callbacks for
 * rem_core_restore()		in its Go, on the first
 */
#ifndef REM_ISA_H
#define REM_ISA_H

#ifdef CONFIG_X86_64
#include "x86/isa.h"
#else
#include "riscv/isa.h"
#endif

#endif /* REM_ISA_H */
