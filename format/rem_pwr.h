/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The wire of PWR_OK: a 16550 of its own between the power supply's monitor
 * and the machine (whole-system-persistence, section 4, "Power monitor").
 *
 * The supply sends one status byte on each change, and repeats it every
 * REM_PWR_REPEAT_MS until the machine echoes it; so a change during firmware,
 * loader or probing may be seen late but is not lost. Receivers treat it as a
 * level: the newest byte with right parity counts. Other bytes are ignored, also
 * those that the 16550 reports with a break or a framing error (a break reads as
 * zeros); the supply repeats them, because they are not echoed.
 *
 *   bit 7    parity: the eight bits of a byte have an even number of ones
 *   bit 6    from the supply 0; from the machine 1 (echo or report)
 *   bit 5-3  sequence, counts changes mod 8
 *   bit 2-1  charge class (enum rem_pwr_charge)
 *   bit 0    PWR_OK
 *
 * An echo is the status byte with bit 6 set and parity corrected. A machine whose
 * Stop has committed sends REM_PWR_STOPPED last, to report to the supply that it
 * needs no more energy. A supply that still has power, or has it again, sends its
 * status again: a machine that stopped because PWR_OK dropped is reset by PWR_OK, and
 * its loader enters the image. The loader echoes that status, the stopped machine
 * does not.
 */
#ifndef REM_PWR_H
#define REM_PWR_H

#define REM_PWR_OK 0x01
#define REM_PWR_CHARGE_MASK 0x06
#define REM_PWR_CHARGE_SHIFT 1
#define REM_PWR_SEQUENCE_MASK 0x38
#define REM_PWR_SEQUENCE_SHIFT 3
#define REM_PWR_FROM_MACHINE 0x40
#define REM_PWR_PARITY 0x80

/* Machine to supply: committed and halted. Even parity. As an echo it would be
 * that of a status which is never sent: sequence 7, charge 3, PWR_OK clear.
 */
#define REM_PWR_STOPPED 0x7e

#define REM_PWR_REPEAT_MS 5

/* The wire on the reference machine: COM2, ISA interrupt 3. */
#define REM_PWR_PORT 0x2f8
#define REM_PWR_IRQ 3

/* The energy of the supply and the NVDIMMs. */
enum rem_pwr_charge {
	REM_CHARGE_NONE = 0, /* unknown, or less than a Stop takes */
	REM_CHARGE_STOP = 1, /* enough for a Stop */
	REM_CHARGE_FLAP = 2, /* enough for the rest of Go and a Stop */
	REM_CHARGE_FULL = 3,
};

#endif /* REM_PWR_H */
