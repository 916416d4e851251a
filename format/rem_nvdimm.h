/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The wire of an NVDIMM-N's controller: a 16550 of its own, by which the
 * machine orders save, restore and erase (whole-system-persistence, section 4,
 * "NVDIMMs": commands over the serial line). Only machines whose NVRAM is DRAM
 * behind such a controller have it.
 *
 * The machine sends one command byte; the controller answers each with a
 * status byte, and sends another when something that takes time is over. All
 * bytes have an even number of ones; a receiver ignores any other, and the
 * machine asks again.
 *
 *   status   bit 7    parity
 *            bit 6    0
 *            bit 5-3  enum rem_nvdimm_state
 *            bit 2-1  enum rem_nvdimm_health
 *            bit 0    1
 *
 *   save     Stop's last command: DRAM goes to flash by the module's own
 *            energy, also when the machine has no power any more. What flash
 *            held before is erased first.
 *   restore  flash goes to DRAM. Until it is over, DRAM is not to be read.
 *   erase    what flash holds must not come back: sent when the image has been
 *            consumed, and before a cold boot. Nothing of the image may be
 *            executed until the status says EMPTY, or a later loss of power
 *            without a save would let the same image be entered again.
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

/* Where the wire is on the reference machine: COM3, never an interrupt. */
#define REM_NVDIMM_PORT 0x3e8

/* What flash holds, or what is being done with it. */
enum rem_nvdimm_state {
	REM_NVDIMM_BUSY = 0,	 /* a restore or an erase is under way */
	REM_NVDIMM_EMPTY = 1,	 /* flash is erased */
	REM_NVDIMM_IMAGE = 2,	 /* a whole save, not restored since power-on */
	REM_NVDIMM_PARTIAL = 3,	 /* a save that did not reach its end */
	REM_NVDIMM_RESTORED = 4, /* DRAM is as flash; flash still holds it */
	REM_NVDIMM_FAILED = 5,	 /* flash could not be read */
};

/* Whether a save begun now would be whole. */
enum rem_nvdimm_health {
	REM_NVDIMM_WORN = 0,	 /* no, and waiting does not help */
	REM_NVDIMM_CHARGING = 1, /* not yet */
	REM_NVDIMM_READY = 2,
};

#endif /* REM_NVDIMM_H */
