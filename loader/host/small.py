# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine of the loader's tests: a kernel and an image of a few instructions, in QEMU."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REGION_PHYS = 0x1_0000_0000
REGION_BYTES = 64 << 20
SECOND_PHYS = 0x2_0000_0000
POLL_S = 0.05
COLD_AT_ONCE = 1  # enum rem_policy
BOUND_S = 60.0
TIMELINE = 0x30000  # of the block


def print_and_exit(text: bytes) -> bytes:
    """Position-independent 64-bit code: text to COM1, then isa-debug-exit."""
    code = bytes.fromhex(
        "488d1d16000000"  # lea text(%rip), %rbx
        "66baf803"  # mov $0x3f8, %dx
        "8a03"  # mov (%rbx), %al
        "84c0"  # test %al, %al
        "7406"  # jz exit
        "ee"  # out %al, %dx
        "48ffc3"  # inc %rbx
        "ebf4"  # jmp to the load of %al
        "66baf400"  # exit: mov $0xf4, %dx
        "ee"  # out %al, %dx
        "f4"  # hlt
    )
    assert len(code) == 29
    return code + text + b"\0"


def bz_image(text: bytes = b"KERNEL entered\r\n") -> bytes:
    """A kernel by the 64-bit boot protocol: entry 0x200 into its second part."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x201] = 0x6A
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<HH", head, 0x206, 0x20F, 0)
    struct.pack_into("<H", head, 0x20E, 0x100)
    struct.pack_into("<I", head, 0x230, 0x200000)
    struct.pack_into("<H", head, 0x236, 3)
    struct.pack_into("<I", head, 0x238, 2047)
    struct.pack_into("<I", head, 0x260, 0x100000)
    head[0x300:0x310] = b"6.12.0-test\0\0\0\0\0"
    body = bytes(0x200) + print_and_exit(text)
    file = bytes(head) + body + bytes(-len(body) % 16)
    return file + struct.pack("<I", zlib.crc32(file))


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


class Running:
    """A machine that waits for something, with its console and QMP."""

    def __init__(self, process: subprocess.Popen[bytes], qmp: Path, bound_s: float) -> None:
        self.bound_s = bound_s
        self.process = process
        self.qmp = qmp
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while piece := os.read(self.process.stdout.fileno(), 4096):
            self.text += piece.decode("latin-1").replace("\r", "")

    def wait(self, words: str) -> None:
        end_s = time.monotonic() + self.bound_s
        while words not in self.text:
            assert time.monotonic() < end_s, f"no {words!r} in:\n{self.text}"
            time.sleep(POLL_S)

    def type(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words.encode())
        self.process.stdin.flush()

    def resize_disk(self, size_bytes: int) -> None:
        with socket.socket(socket.AF_UNIX) as qmp:
            qmp.connect(str(self.qmp))
            answers = qmp.makefile()
            answers.readline()
            for command, arguments in (
                ("qmp_capabilities", {}),
                ("block_resize", {"device": "d0", "size": size_bytes}),
            ):
                qmp.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
                while "return" not in (answer := json.loads(answers.readline())):
                    assert "error" not in answer, answer


class Machine:
    """Its media are in *folder*."""

    def __init__(self, folder: Path, loader: Path, build_record: Path) -> None:
        self.loader = loader
        self.build_record = build_record
        self.nvram = folder / "nvram"
        self.kernel = folder / "kernel"
        self.cmdline = folder / "cmdline"
        self.disk = folder / "disk"
        self.nvram.touch()
        os.truncate(self.nvram, REGION_BYTES)
        self.kernel.write_bytes(bz_image())
        self.cmdline.write_text("console=ttyS0\n")
        self.disk.touch()
        os.truncate(self.disk, 1 << 20)
        self.qmp = folder / "qmp"
        self.bound_s = BOUND_S
        self.cpus = 2
        self.dram_mib = 64
        self.serial: str | None = "rem-root"
        self.unarmed = False
        self.first = True  # whether the NVDIMM with the block is there
        self.second: Path | None = None  # another range of NVRAM
        self.extra: list[str] = []
        self.fds: tuple[int, ...] = ()  # that QEMU inherits

    def nvdimms(self) -> list[str]:
        files = [(self.nvram, REGION_PHYS)] if self.first else []
        files += [(self.second, SECOND_PHYS)] if self.second else []
        words = []
        for path, base in files:
            words += [
                "-object", f"memory-backend-file,id=nv{base:x},share=on,mem-path={path},"
                f"size={path.stat().st_size}",
                "-device", f"nvdimm,memdev=nv{base:x},addr={base:#x}"
                + (",unarmed=on" if self.unarmed else ""),
            ]  # fmt: skip
        return words

    def firmware(self) -> list[str]:
        """How the loader is started, and where its files are."""
        return [
            "-kernel", str(self.loader),
            "-fw_cfg", f"name=opt/remanence/kernel,file={self.kernel}",
            "-fw_cfg", f"name=opt/remanence/cmdline,file={self.cmdline}",
        ]  # fmt: skip

    def command(self) -> list[str]:
        command = [
            "qemu-system-x86_64", "-machine", "q35,nvdimm=on", "-cpu", "Haswell-noTSX",
            "-smp", str(self.cpus), "-m", f"{self.dram_mib}M,slots=2,maxmem=8G",
            *self.nvdimms(), "-display", "none", "-nodefaults", "-no-reboot",
            "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=1",
            *self.firmware(),
        ]  # fmt: skip
        if self.serial is not None:
            command += [
                "-drive", f"if=none,id=d0,file={self.disk},format=raw",
                "-device", f"virtio-blk-pci,drive=d0,serial={self.serial}",
            ]  # fmt: skip
        return command + self.extra

    def run(self, bound_s: float | None = None) -> str:
        """Run until the kernel or the image ends QEMU; return the console output."""
        done = subprocess.run(
            self.command(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            pass_fds=self.fds,
            timeout=bound_s or self.bound_s,
            check=False,
        )
        text = done.stdout.decode("latin-1").replace("\r", "")
        assert "entered" in text, text + done.stderr.decode()
        return text

    @contextmanager
    def running(self) -> Iterator[Running]:
        process = subprocess.Popen(
            [*self.command(), "-qmp", f"unix:{self.qmp},server=on,wait=off"],
            stdin=subprocess.PIPE,
            pass_fds=self.fds,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            yield Running(process, self.qmp, self.bound_s)
        finally:
            process.kill()
            process.communicate()

    def put_event(self, sequence: int, place: int, kind: int) -> None:
        """As the kernel writes it into the timeline of a Stop."""
        event = struct.pack("<IHHQQI", sequence, kind, 0, 1000, 1, 0)
        with self.nvram.open("r+b") as file:
            file.seek(TIMELINE + sequence % 2 * 0x8000 + place * 32)
            file.write(event + struct.pack("<I", crc32c(event)))

    def put_block_in_second(self) -> None:
        """As a kernel does that boots there while the first range is absent."""
        words = [self.second, hex(SECOND_PHYS), 2, 1]
        subprocess.run([self.build_record, *map(str, words)], check=True)

    def put_image(self, sequence: int, consumed: int, policy: int = 0, hold_s: int = 0) -> None:
        """With a second range, all that the image points to is there."""
        words: list[object] = [self.nvram, hex(REGION_PHYS), sequence, consumed]
        if policy or self.second:
            words += [policy or COLD_AT_ONCE, hold_s]
        if self.second:
            words += [self.second, hex(SECOND_PHYS)]
        subprocess.run([self.build_record, *map(str, words)], check=True)

    def add_second(self, size_bytes: int = REGION_BYTES) -> None:
        self.second = self.nvram.with_name("second")
        self.second.touch()
        os.truncate(self.second, size_bytes)

    def read(self, offset: int, count: int) -> bytes:
        with self.nvram.open("rb") as file:
            file.seek(offset)
            return file.read(count)

    def consumed(self) -> int:
        return int.from_bytes(self.read(0x1000, 4), "little")
