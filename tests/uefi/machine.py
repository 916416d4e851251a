# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The small machine of the loader's own tests, under UEFI."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.machine.esp import loader_efi, make_esp, sign
from lab.machine.qemu import SECURE
from lab.machine.unified import unified
from lab.setup.ovmf import Firmware
from lab.verdict import BrokenError
from loader.host.small import Machine

BOUND_S = 200.0  # of a boot: firmware takes 3 s on an idle host, and much longer on a busy one
QUIET = re.compile(r"STUB bus masters (.), devices in use (.)")


class UefiMachine(Machine):
    """As Machine, but firmware starts the loader, from a disk that is made at each boot."""

    def __init__(self, folder: Path, loader: Path, build_record: Path, firmware: Firmware) -> None:
        super().__init__(folder, loader, build_record)
        self.bound_s = BOUND_S
        self.folder = folder
        self.code = firmware.code
        self.variables = folder / "variables.fd"
        self.esp = folder / "esp.img"
        self.texts: dict[str, str] = {}  # further files of the loader
        self.mutant: str | None = None
        self.with_loader = True
        self.with_kernel = True
        shutil.copyfile(firmware.variables, self.variables)

    def application(self) -> Path | None:
        return loader_efi(self.loader) if self.with_loader else None

    def firmware(self) -> list[str]:
        files = {"vmlinuz": self.kernel} if self.with_kernel else {}
        files["cmdline"] = self.cmdline
        texts = self.texts | ({"mutant": self.mutant} if self.mutant else {})
        make_esp(self.esp, self.application(), files, texts)
        return [
            "-drive", f"if=pflash,format=raw,readonly=on,file={self.code}",
            "-drive", f"if=pflash,format=raw,file={self.variables}",
            "-drive", f"if=none,id=esp,format=raw,read-only=on,file={self.esp}",
            "-device", "virtio-blk-pci,drive=esp,serial=esp,bootindex=0,addr=0x10",
        ]  # fmt: skip


class SecureMachine(UefiMachine):
    """Under Secure Boot; firmware starts the loader and its files as one signed image."""

    def __init__(self, folder: Path, loader: Path, build_record: Path, firmware: Firmware) -> None:
        super().__init__(folder, loader, build_record, firmware)
        assert firmware.signer is not None
        self.signer = firmware.signer
        # Each write of a variable gathers all CPUs in system management mode: on a busy host the
        # vCPUs wait for each other.
        self.cpus = 1
        self.signed = True
        self.whole = True  # kernel and command line are parts of the image
        self.flipped: bytes | None = None  # a byte of these is changed after the signature

    def application(self) -> Path:
        parts = {"vmlinuz": self.kernel, "cmdline": self.cmdline} if self.whole else {}
        image = self.folder / "remanence.efi"
        files = {name: path.read_bytes() for name, path in parts.items()}
        image.write_bytes(unified(loader_efi(self.loader).read_bytes(), files))
        if self.signed:
            sign(image, self.signer.key, self.signer.certificate)
        if self.flipped is not None:
            raw = bytearray(image.read_bytes())
            raw[raw.index(self.flipped)] ^= 1
            image.write_bytes(raw)
        return image

    def firmware(self) -> list[str]:
        return [*SECURE, *super().firmware()]


def check_nothing_writes(text: str) -> None:
    """Inner check: by the image that was entered, no device can write to memory."""
    found = QUIET.search(text)
    assert found, text
    if found.groups() != ("0", "0"):
        masters, in_use = found.groups()
        raise BrokenError("writes-on", f"{masters} bus masters, {in_use} devices in use")
