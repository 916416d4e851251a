/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What the loader's direct-boot front end is given, as QEMU fw_cfg files. The
 * kernel and its words are the user's; nothing here is read after the kernel or
 * the image has been entered.
 */
#ifndef REM_FWCFG_H
#define REM_FWCFG_H

#define REM_FWCFG_KERNEL "opt/remanence/kernel"	  /* a bzImage */
#define REM_FWCFG_INITRD "opt/remanence/initrd"	  /* may be missing */
#define REM_FWCFG_CMDLINE "opt/remanence/cmdline" /* text, no NUL needed */
#define REM_FWCFG_COLD "opt/remanence/cold"	  /* present: never resume */
/* Serials of disks whose write cache survives a power failure, a line each. */
#define REM_FWCFG_PROTECTED "opt/remanence/protected"

/* Read only by a loader built with planted bugs: which of them it is to have. */
#define REM_FWCFG_MUTANT "opt/remanence/mutant"

#endif /* REM_FWCFG_H */
