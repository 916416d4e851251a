/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The wire of an NVDIMM-N's controller: a 16550 of its own, by which the
 * machine starts save, restore and erase (whole-system-persistence, section 4,
 * "NVDIMMs": commands over the serial line). Only machines whose NVRAM is the
 * DRAM of such a module have it.
 *
 * The machine sends one command byte. The controller answers each command with a
 * status byte, and sends another one when an operation is completed. All bytes
 * have an even number of ones; receivers ignore others, and the machine repeats
 * its query.
 *
 *   status   bit 7    parity
 *            bit 6    0
 *            bit 5-3  enum rem_nvdimm_state
 *            bit 2-1  enum rem_nvdimm_health
 *            bit 0    1
 *
 *   save     the last command of a Stop: copies DRAM to flash with the module's
 *            own energy, also when the machine has no power any more. The old
 *            content of flash is erased first. A reset does not end it: until the
 *            state is IMAGE, DRAM must not be accessed. Then a restore brings back
 *            what was saved, also if DRAM has had power all the time.
 *   restore  copies flash to DRAM. Until it is completed, DRAM must not be read.
 *   erase    erases flash: sent when the image has been consumed, and before a
 *            cold boot. Nothing of the image may be executed until the state is
 *            EMPTY; otherwise, after a loss of power without a save, the same
 *            image could be entered again.
 */
#ifndef REM_NVDIMM_H
#define REM_NVDIMM_H

#define REM_NVDIMM_QUERY 0x41
#define REM_NVDIMM_RESTORE 0x42
#define REM_NVDIMM_ERASE 0x44
#define REM_NVDIMM_SAVE 0x48

#define REM_NVDIMM_ANSWER 0x01
#define REM_NVDIMM_HEALTH_MASK 0x06
#define REM_NVDIMM_HEALTH_SHIFT 1
#define REM_NVDIMM_STATE_MASK 0x38
#define REM_NVDIMM_STATE_SHIFT 3
#define REM_NVDIMM_FROM_MACHINE 0x40
#define REM_NVDIMM_PARITY 0x80

/* The wire on the reference machine: COM3, without an interrupt. */
#define REM_NVDIMM_PORT 0x3e8

/* The content of flash, or the operation in progress. */
enum rem_nvdimm_state {
	REM_NVDIMM_BUSY = 0,	 /* a save, restore or erase is in progress */
	REM_NVDIMM_EMPTY = 1,	 /* flash is erased */
	REM_NVDIMM_IMAGE = 2,	 /* a complete save, not restored since */
	REM_NVDIMM_PARTIAL = 3,	 /* a save that was not completed */
	REM_NVDIMM_RESTORED = 4, /* DRAM and flash have the same content */
	REM_NVDIMM_FAILED = 5,	 /* flash could not be read */
};

/* Whether a save that starts now would be completed. */
enum rem_nvdimm_health {
	REM_NVDIMM_WORN = 0,	 /* no, and charging does not help */
	REM_NVDIMM_CHARGING = 1, /* not yet */
	REM_NVDIMM_READY = 2,
};

#endif /* REM_NVDIMM_H */
