# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: give a disk one partition, from 1 MiB on, of SIZE sectors of 512 bytes.

pm-parted.py DISK SIZE
"""

import struct
import sys

FIRST = 2048
LINUX = 0x83

with open(sys.argv[1], "r+b", buffering=0) as disk:
    entry = struct.pack("<B3sB3sII", 0, b"", LINUX, b"", FIRST, int(sys.argv[2]))
    disk.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
