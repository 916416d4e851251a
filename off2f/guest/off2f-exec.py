# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reports what exec does with damaged programs, and damages them.

off2f-exec.py run PROGRAM [ARGUMENT...]   `ok`, or errno's name
off2f-exec.py field ABC OFFSET HEX        writes bytes of the header, and corrects its CRC
off2f-exec.py flip FILE OFFSET            flips one bit
off2f-exec.py poke PROGRAM [ARGUMENT...]  writes into the text while it sleeps, as debuggers do
off2f-exec.py same STORE ELF[=OTHER]...   compares the output of --version with the ELF's
"""

import errno
import io
import os
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 20
OURS_LIMIT_S = 200  # for a program that took less than LIMIT_S as ELF
HERE = "/opt/bin"
CRC_AT = 12
PAGE_BYTES = 4096
CLOCK_NANOSLEEP = "230 "


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


def sleeper(words: list[str]) -> tuple["subprocess.Popen[bytes]", range]:
    """Start a program; return it when it sleeps, with the addresses of its text."""
    process = subprocess.Popen(words)
    call = Path(f"/proc/{process.pid}/syscall")
    while not call.read_text().startswith(CLOCK_NANOSLEEP):
        if process.poll() is not None:
            sys.exit(f"{words[0]} does not sleep")
        time.sleep(0.05)
    for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
        if " r-xp " in line and line.endswith(".xyz"):
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            return process, range(start, end)
    sys.exit(f"{words[0]} has no text in an XYZ")


def poke(words: list[str]) -> None:
    traced, text = sleeper(words)
    other, its_text = sleeper(words)
    with (
        open(f"/proc/{traced.pid}/mem", "r+b", buffering=0) as memory,
        open(f"/proc/{other.pid}/mem", "rb", buffering=0) as others,
    ):
        print(poked(memory, text, others, its_text))
    for process in (traced, other):
        process.kill()
        process.wait()


def bytes_of(memory: io.FileIO, where: range) -> bytes:
    memory.seek(where.start)
    return memory.read(len(where))


def poked(memory: io.FileIO, text: range, others: io.FileIO, its_text: range) -> str:
    """Write a byte of each page, and across a page boundary; then restore everything."""
    before = bytes_of(memory, text)
    wanted = bytearray(before)
    writes = [(page + 0x7FF, 1) for page in range(0, len(text), PAGE_BYTES)]
    writes.append((PAGE_BYTES - 2, 4))
    for at, count in writes:
        wanted[at : at + count] = bytes(byte ^ 0xCC for byte in before[at : at + count])
    for new in (wanted, before):
        for at, count in writes:
            memory.seek(text.start + at)
            if memory.write(new[at : at + count]) != count:
                return "a write was cut short"
        if bytes_of(memory, text) != new:
            return "other bytes have changed, too"
        if bytes_of(others, its_text) != before:
            return "another process has them, too"
    return "ok"


def printed(program: str, word: str, name: str, limit_s: int = LIMIT_S) -> tuple[int, bytes]:
    done = subprocess.run(
        [name, word],
        executable=program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout


def judge(program: str, name: str) -> str:
    """Compare the outputs; a program whose output differs between two runs is `unsteady`."""
    for word in ("--version", "--help"):
        try:
            first, second = printed(program, word, name), printed(program, word, name)
        except subprocess.TimeoutExpired:
            continue
        if first != second:
            continue
        try:
            other = printed(f"{HERE}/{name}", word, name, OURS_LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"HANGS {name} {word}"
        return f"{'same' if other == first else 'DIFFERS'} {name} {word}"
    return f"unsteady {name} -"


def same(store: str, programs: list[str]) -> None:
    """Print one line for each program. With OTHER, that program is installed in its place."""
    os.makedirs(HERE, exist_ok=True)
    for pair in programs:
        program, _, other = pair.partition("=")
        name = os.path.basename(program)
        words = ["off2f", "install", other or program, "--to", f"{HERE}/{name}", "--store", store]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        if made.returncode:
            print("refused", name, made.stderr.strip())
            continue
        print(judge(program, name))
        words = ["off2f", "remove", f"{HERE}/{name}", "--store", store]
        subprocess.run(words, check=True)


def main() -> None:
    order, *words = sys.argv[1:]
    if order == "run":
        run(words)
    elif order == "field":
        field(words[0], int(words[1]), bytes.fromhex(words[2]))
    elif order == "poke":
        poke(words)
    elif order == "flip":
        flip(words[0], int(words[1]))
    else:
        same(words[0], words[1:])


main()
