/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The input of the loader's direct-boot front end, as QEMU fw_cfg files. Nothing
 * here is read after the kernel or the image has been entered.
 */
#ifndef REM_FWCFG_H
#define REM_FWCFG_H

#define REM_FWCFG_KERNEL "opt/remanence/kernel"	  /* a bzImage */
#define REM_FWCFG_INITRD "opt/remanence/initrd"	  /* may be missing */
#define REM_FWCFG_CMDLINE "opt/remanence/cmdline" /* text, no NUL needed */
#define REM_FWCFG_COLD "opt/remanence/cold"	  /* present: never resume */
/* Serials of disks whose write cache is protected, one in each line. */
#define REM_FWCFG_PROTECTED "opt/remanence/protected"

#endif /* REM_FWCFG_H */
