# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Write the paper's program: a static ELF whose text is NOPs, each executed once, and an exit.

off2f-nops.py TEXT_BYTES FILE     data of 400 bytes, as in the paper
"""

import os
import struct
import sys

PAGE = 4096
BASE = 0x400000
EXIT = bytes.fromhex("31ffb83c0000000f05")  # xor edi, edi; mov eax, 60; syscall
DATA_BYTES = 400
OTHER_BYTES = 2135


def program(text_bytes: int) -> bytes:
    text = (b"\x90" * (text_bytes - OTHER_BYTES) + EXIT).ljust(text_bytes, b"\xcc")
    data_at = PAGE + len(text) + -len(text) % PAGE
    loads = [
        (4, 0, 64 + 3 * 56),
        (5, PAGE, len(text)),
        (6, data_at, DATA_BYTES),
    ]
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, BASE + PAGE, 64, 0, 0, 64, 56, len(loads), 0, 0, 0
    )
    for flags, at, size in loads:
        head += struct.pack("<IIQQQQQQ", 1, flags, at, BASE + at, BASE + at, size, size, PAGE)
    return head.ljust(PAGE, b"\0") + text.ljust(data_at - PAGE, b"\0") + b"d" * DATA_BYTES


def main() -> None:
    size, path = int(sys.argv[1]), sys.argv[2]
    with open(path, "wb") as file:
        file.write(program(size))
    os.chmod(path, 0o755)


main()
