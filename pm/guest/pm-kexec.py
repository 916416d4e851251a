# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: go on with the kernel of a file, without firmware or loader.

pm-kexec.py load FILE   the command line stays what it is
pm-kexec.py enter       no file system is notified, as in a crash; nobody ends the connection
"""

import ctypes
import os
import sys

KEXEC_FILE_LOAD, REBOOT = 320, 169  # numbers of system calls on x86-64
NO_INITRAMFS = 4
MAGIC, MAGIC2, GO = 0xFEE1DEAD, 672274793, 0x45584543


def call(*words: int | bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*(ctypes.c_ulong(w) if isinstance(w, int) else w for w in words)):
        sys.exit(os.strerror(ctypes.get_errno()))


if sys.argv[1] == "load":
    with open("/proc/cmdline", "rb") as file:
        line = file.read().strip() + b"\0"
    kernel = os.open(sys.argv[2], os.O_RDONLY)
    # No initrd: -1 is not looked at with the flag.
    call(KEXEC_FILE_LOAD, kernel, 0, len(line), line, NO_INITRAMFS)
    os.sync()
else:
    call(REBOOT, MAGIC, MAGIC2, GO, 0)
