# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What exec says of spoilt programs, and spoils them.

off2f-exec.py run PROGRAM [ARGUMENT...]   `ok`, or errno's name
off2f-exec.py field ABC OFFSET HEX        bytes of the header, its CRC made right again
off2f-exec.py flip FILE OFFSET            one bit
off2f-exec.py same DIR PROGRAM...         each run with --version (or --help), and DIR/NAME likewise
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 20
CRC_AT = 12


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
        print("ok" if done.returncode == 0 else f"exit {done.returncode}")
    except OSError as error:
        print(errno.errorcode[error.errno or 0])


def field(path: str, offset: int, new: bytes) -> None:
    file = Path(path)
    data = bytearray(file.read_bytes())
    data[offset : offset + len(new)] = new
    data[CRC_AT : CRC_AT + 4] = bytes(4)
    used = int.from_bytes(data[8:12], "little")
    data[CRC_AT : CRC_AT + 4] = crc32c(bytes(data[:used])).to_bytes(4, "little")
    file.write_bytes(data)


def flip(path: str, offset: int) -> None:
    os.chmod(path, 0o755)
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))
    os.chmod(path, 0o555)


def said(program: str, word: str, name: str) -> tuple[int, bytes]:
    done = subprocess.run(
        [name, word],
        executable=program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout


def same(folder: str, programs: list[str]) -> None:
    """Only a program that says the same twice can be compared."""
    for program in programs:
        name = os.path.basename(program)
        for word in ("--version", "--help"):
            try:
                first, second = said(program, word, name), said(program, word, name)
                if first == second:
                    other = said(f"{folder}/{name}", word, name)
                    print("same" if other == first else "DIFFERS", name, word)
                    break
            except subprocess.TimeoutExpired:
                continue
        else:
            print("unsteady", name, "-")


def main() -> None:
    order, *words = sys.argv[1:]
    if order == "run":
        run(words)
    elif order == "field":
        field(words[0], int(words[1]), bytes.fromhex(words[2]))
    elif order == "flip":
        flip(words[0], int(words[1]))
    else:
        same(words[0], words[1:])


main()
