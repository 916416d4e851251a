# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The small machine of the loader's own tests, under UEFI."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.machine.esp import make_esp
from lab.setup.ovmf import Firmware
from lab.verdict import BrokenError
from loader.host.small import Machine

QUIET = re.compile(r"STUB bus masters (.), devices in use (.)")


class UefiMachine(Machine):
    """As Machine, but firmware starts the loader, from a disk that is made at each boot."""

    def __init__(self, folder: Path, loader: Path, build_record: Path, firmware: Firmware) -> None:
        super().__init__(folder, loader, build_record)
        self.folder = folder
        self.code = firmware.code
        self.variables = folder / "variables.fd"
        self.esp = folder / "esp.img"
        self.texts: dict[str, str] = {}  # further files of the loader
        self.mutant: str | None = None
        self.with_loader = True
        self.with_kernel = True
        shutil.copyfile(firmware.variables, self.variables)

    def firmware(self) -> list[str]:
        files = {"vmlinuz": self.kernel} if self.with_kernel else {}
        files["cmdline"] = self.cmdline
        texts = self.texts | ({"mutant": self.mutant} if self.mutant else {})
        make_esp(self.esp, self.loader if self.with_loader else None, files, texts)
        return [
            "-drive", f"if=pflash,format=raw,readonly=on,file={self.code}",
            "-drive", f"if=pflash,format=raw,file={self.variables}",
            "-drive", f"if=none,id=esp,format=raw,read-only=on,file={self.esp}",
            "-device", "virtio-blk-pci,drive=esp,serial=esp,bootindex=0,addr=0x10",
        ]  # fmt: skip


def check_nothing_writes(text: str) -> None:
    """Inner check: by the image that was entered, no device can write to memory."""
    found = QUIET.search(text)
    assert found, text
    if found.groups() != ("0", "0"):
        masters, in_use = found.groups()
        raise BrokenError("writes-on", f"{masters} bus masters, {in_use} devices in use")
