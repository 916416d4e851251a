# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The paths of one machine's files: all in one directory, which has the machine's name."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import InfraError, UsageError
from lab.machine.config import NAME_PATTERN, MachineConfig
from lab.machine.disks import DiskFiles
from lab.machine.nvdimm import NvdimmFiles
from lab.paths import machines_dir


@dataclass(frozen=True)
class MachineFiles:
    """Paths only; sockets are reached relative to `directory`, as their names may be too long."""

    directory: Path

    @staticmethod
    def of(name: str) -> MachineFiles:
        if not NAME_PATTERN.fullmatch(name):
            raise UsageError(f"no machine can be called {name!r}: use a-z, 0-9 and '-'")
        return MachineFiles(machines_dir() / name)

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def config(self) -> Path:
        return self.directory / "config.json"

    @property
    def state(self) -> Path:
        return self.directory / "state.json"

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    @property
    def transient(self) -> Path:
        """Exists if the machine ends with the command that made it."""
        return self.directory / "transient"

    @property
    def disk(self) -> Path:
        return self.directory / "disk.img"

    @property
    def blank(self) -> Path:
        """The second disk, whose write cache survives."""
        return self.directory / "blank.img"

    @property
    def variables(self) -> Path:
        """Flash of UEFI firmware, which survives."""
        return self.directory / "uefi-variables.fd"

    @property
    def tpm(self) -> Path:
        """What the TPM keeps without power, a folder."""
        return self.directory / "tpm"

    @property
    def esp(self) -> Path:
        """The disk that UEFI firmware boots from (esp.py)."""
        return self.directory / "esp.img"

    @property
    def signed(self) -> Path:
        """Under Secure Boot: the loader with its files, as firmware starts it."""
        return self.directory / "remanence.efi"

    @property
    def tree(self) -> Path:
        """The device tree of a machine that has one (qemu_riscv.py)."""
        return self.directory / "machine.dtb"

    @property
    def disk_parts(self) -> DiskFiles:
        """Of a disk with a volatile cache."""
        return DiskFiles(
            self.disk, self.directory / "disk-cache.qcow2", self.directory / "disk-log.bin"
        )

    def nvdimm_parts(self, config: MachineConfig) -> NvdimmFiles:
        """Of NVRAM that is DRAM behind a controller; flash lies where NVRAM lies."""
        dram = self.nvram(config)
        flash, state = dram.with_suffix(".flash"), self.directory / "nvdimm.json"
        return NvdimmFiles(dram, flash, state, self.memory(config))

    @property
    def control(self) -> Path:
        return self.directory / "control.sock"

    @property
    def trace(self) -> Path:
        """With caches: memory requests, once `rem media record` has started."""
        return self.directory / "requests.trace"

    @property
    def ssh_control(self) -> Path:
        return self.directory / "ssh.sock"

    @property
    def supervisor_log(self) -> Path:
        return self.directory / "supervisor.log"

    @property
    def share_log(self) -> Path:
        """What the servers of shared folders report."""
        return self.directory / "share.log"

    def nvram(self, config: MachineConfig) -> Path:
        if config.nvram_dir is None:
            return self.directory / "nvram.img"
        return config.nvram_dir / f"rem-{self.name}-{self.identity}.nvram"

    def nvram_second(self, config: MachineConfig) -> Path:
        """The second range of NVRAM, if the machine has one."""
        return self.nvram(config).with_suffix(".second")

    def memory(self, config: MachineConfig) -> Path:
        """With caches: what CPUs and devices read while the machine runs; nvram() is then media."""
        return self.nvram(config).with_suffix(".memory")

    def at_cut(self, config: MachineConfig) -> Path:
        """memory() as it was when the power failed, until power returns. For `rem inspect` only."""
        return self.nvram(config).with_suffix(".at-cut")

    def writers(self, config: MachineConfig) -> Path:
        """With caches: the last writer of each line (rem_writers.h). Kept as long as at_cut()."""
        return self.nvram(config).with_suffix(".writers")

    @property
    def flushes(self) -> Path:
        """With caches: the flushes of the last Stop (lab/power/discharge.py)."""
        return self.directory / "flushes.log"

    def seen(self, config: MachineConfig) -> Path:
        """NVRAM as a running machine sees it, or as it left it."""
        memory = self.memory(config)
        return memory if config.caches is not None and memory.exists() else self.nvram(config)

    @property
    def identity(self) -> str:
        """Distinguishes machines of one name in two state directories, in names the host shares."""
        return f"{self.directory.stat().st_ino:x}"

    def console_log(self, boot: int) -> Path:
        return self.directory / f"console-{boot:04}.log"

    def qemu_log(self, boot: int) -> Path:
        return self.directory / f"qemu-{boot:04}.log"

    def read_config(self) -> MachineConfig:
        try:
            return MachineConfig.from_json(self.config.read_text(encoding="utf-8"))
        except FileNotFoundError as err:
            raise UsageError(
                f"there is no machine {self.name!r} in {self.directory.parent}: "
                f"make it with `rem run --name {self.name}`"
            ) from err

    def read_state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self.state.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}  # never booted, or the host lost its power: the state is unknown
        return state

    def write_state(self, state: dict[str, Any]) -> None:
        """Written by rename, so that a reader sees the old state or the new one."""
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        new.replace(self.state)


class MachineLock:
    """Held by the one process that owns a machine; the kernel drops it when that process ends."""

    def __init__(self, files: MachineFiles) -> None:
        self.files = files
        self.fd = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            owner = os.pread(self.fd, 32, 0).decode(errors="replace").strip()
            os.close(self.fd)
            raise InfraError(
                f"machine {files.name!r} is in use by process {owner}: "
                f"see `rem status --name {files.name}`, or take another --name"
            ) from err
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self.fd)

    @staticmethod
    def owner_pid(files: MachineFiles) -> int | None:
        """The owner, or None if the lock is free, whatever the state file has."""
        try:
            fd = os.open(files.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            text = os.pread(fd, 32, 0).decode(errors="replace").strip()
            return int(text) if text.isdigit() else -1
        finally:
            os.close(fd)
