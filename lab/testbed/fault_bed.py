# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a trial with a fault needs of a system, whatever brings it back after a power failure.

redis serves clients on the host that remember each answer and never connect again. The module of
kernel/test/rem_fault.c is loaded; its mended release lies beside it on the disk.
"""

from __future__ import annotations

import mmap
import re
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lab.clients.process import ClientProcess
from lab.errors import HangError
from lab.machine.guest import GuestResult
from lab.machine.qmp import Qmp
from lab.setup.fault_module import FaultModules
from lab.testbed.workload import SERVERS

CLIENTS, DEPTH = 4, 4
COMMAND_LIMIT_S = 60.0
PROBE_LIMIT_S = 5  # of what takes milliseconds, unless something is wrong
HOLD_UP_US = 10_000_000  # TCG on shared cores; a save that is not done then is none
UP_LIMIT_S = 120.0  # of a boot, which takes seconds
SILENT_LIMIT_S = 30.0  # of one whose disk is expected to be missing
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
DRIVER = "/root/rem_fault.ko"
RELEASES = {"defective": "/root/rem_fault.1.ko", "mended": "/root/rem_fault.2.ko"}
FUNCTION = "tcp_v4_rcv"  # each request comes through it
PAGE_BYTES = 4096
# A disk whose requests do not end.
SILENT: dict[str, Any] = {"driver": "null-co", "node-name": "rem-silent", "latency-ns": 10**15}
DISK_NODE = "rem-disk"


@dataclass(frozen=True)
class Back:
    """What a power-on brought."""

    entered: bool  # an image
    reason: str
    up: bool = True  # a system runs, from the image or a fresh one; else the image is kept


class Bed(ABC):
    """One machine, and the power of it. `fresh`: it has booted, and nothing has happened since."""

    mode: ClassVar[str]
    keeps_kernel: ClassVar[bool]  # what comes back is the same kernel

    def __init__(self) -> None:
        self.fresh = False
        self.disk_is_silent = False  # from the next power-on
        self.device_is_gone = False  # likewise, a device that nobody uses
        self.boot_id = ""

    @property
    def up_limit_s(self) -> float:
        """How long a boot is waited for."""
        return SILENT_LIMIT_S if self.disk_is_silent else UP_LIMIT_S

    @abstractmethod
    def sh(self, command: str, check: bool = True, limit_s: float = COMMAND_LIMIT_S) -> GuestResult:
        """A command in the system."""

    @abstractmethod
    def off(self) -> None:
        """The power goes without a warning, if it is on."""

    @abstractmethod
    def writers(self) -> ClientProcess:
        """Clients of redis."""

    @abstractmethod
    def cut(self) -> bool:
        """PWR_OK drops, and the power goes; whether all was saved before."""

    @abstractmethod
    def back(self) -> Back:
        """The power returns."""

    @abstractmethod
    def qmp(self) -> Qmp:
        """The machine's monitor."""

    @abstractmethod
    def media(self) -> tuple[Path, int]:
        """The file that memory is, and the physical address of its begin."""

    @abstractmethod
    def put(self, local: Path, remote: str) -> None:
        """Copy a file into the system."""

    # Before the power fails.

    def install(self, modules: FaultModules) -> None:
        """Once, on the disk."""
        for name, place in RELEASES.items():
            self.put(getattr(modules, name), place)
        self.sh(f"cp {RELEASES['defective']} {DRIVER}; sync")

    def start(self) -> None:
        """A system without a fault, and redis in it."""
        if not self.fresh:
            if not self.boot():
                raise HangError(f"{self.mode}: no system comes up, without a fault")
            self.sh(f"cp {RELEASES['defective']} {DRIVER}; sync")
        self.load_driver()
        self.fresh = False
        self.boot_id = self.sh(BOOT_ID).stdout
        self.start_redis()

    def boot(self) -> bool:
        """The power goes without a warning and returns; whether a system is up."""
        self.off()
        return self.back().up

    def load_driver(self) -> None:
        """As a boot does: the release that the disk has."""
        self.sh(f"test -e /dev/rem_fault || insmod {DRIVER}")

    def start_redis(self) -> None:
        """Empty."""
        ping = f"timeout {PROBE_LIMIT_S} redis-cli ping >/dev/null 2>&1"
        self.sh(f"{SERVERS['redis']} >/dev/null; until {ping}; do sleep 0.1; done")

    def holds(self, command: str) -> bool:
        """Whether a command succeeds soon. What hangs is left hanging, since no signal ends it."""
        words = (
            f"rm -f /run/held; ({command}) </dev/null >/dev/null 2>&1 && touch /run/held & "
            f"for n in $(seq {PROBE_LIMIT_S}0); do test -e /run/held && exit 0; sleep 0.1; done; "
            "exit 1"
        )
        with suppress(HangError):
            return self.sh(words, check=False, limit_s=4 * PROBE_LIMIT_S).ok
        return False

    def crashed(self) -> bool:
        """After a return: another kernel runs than the one that the image has."""
        end_s = time.monotonic() + UP_LIMIT_S
        while self.keeps_kernel and time.monotonic() < end_s:
            with suppress(HangError):
                found = self.sh(BOOT_ID, check=False, limit_s=COMMAND_LIMIT_S)
                if found.ok:
                    return found.stdout != self.boot_id
            time.sleep(1)
        return False

    # Faults of what is below the system.

    def silence_disk(self) -> None:
        """The disk answers nothing from now on, until the power has been off."""
        qmp = self.qmp()
        bytes_ = next(
            one["image"]["virtual-size"]
            for one in qmp.execute("query-named-block-nodes")
            if one["node-name"] == DISK_NODE
        )
        qmp.execute("blockdev-add", **SILENT, size=bytes_)
        changed = {"driver": "raw", "node-name": DISK_NODE, "file": SILENT["node-name"]}
        qmp.execute("blockdev-reopen", options=[changed])

    def code_place(self) -> int:
        """The physical address of the page with the begin of the kernel's function."""
        words = f"grep -E ' (_text|{FUNCTION})$' /proc/kallsyms; grep 'Kernel code' /proc/iomem"
        found = self.sh(words).stdout
        at = {
            name: int(re.findall(rf"^(\w+) . {name}$", found, re.M)[0], 16)
            for name in ("_text", FUNCTION)
        }
        begin = int(re.findall(r"^ *(\w+)-\w+ : Kernel code", found, re.M)[0], 16)
        return (begin + at[FUNCTION] - at["_text"]) // PAGE_BYTES * PAGE_BYTES

    def spoil(self, addresses: list[int], count_bytes: int) -> int:
        """Other bits there, while the power is off; how many of these places the media have."""
        path, begin = self.media()
        size_bytes = path.stat().st_size
        offsets = [at - begin for at in addresses if 0 <= at - begin < size_bytes]
        with path.open("r+b") as file, mmap.mmap(file.fileno(), size_bytes) as media:
            for at in offsets:
                media[at : at + count_bytes] = _other(media[at : at + count_bytes])
        return len(offsets)

    def spoil_value(self, value: bytes) -> int:
        """The same in each copy of a value that the media have."""
        path, _ = self.media()
        with path.open("r+b") as file, mmap.mmap(file.fileno(), path.stat().st_size) as media:
            places, at = 0, media.find(value)
            while at >= 0:
                media[at : at + 1] = _other(media[at : at + 1])
                places, at = places + 1, media.find(value, at + len(value))
        return places

    def free_places(self) -> list[int]:
        """While the power is off: pages of media that hold nothing of a program that is kept."""
        return []


def _other(content: bytes) -> bytes:
    return bytes(byte ^ 1 for byte in content)
