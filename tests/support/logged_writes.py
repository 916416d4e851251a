# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A file system on a disk whose writes are all logged (dm-log-writes), and each point of
that log inspected: lab/testbed/write_log.py, in the guest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.machine import Machine
from lab.paths import repo_dir
from lab.testbed import dm_table
from lab.testbed.fsx import DISK, FOLDER, FileSystem, mount, unmount
from lab.testbed.pm_guest import sh
from lab.verdict import BrokenError

DISK_BYTES = 1 << 30
DATA_SECTORS = (320 << 20) // 512  # mkfs.xfs wants 300 MiB
LOG_SECTORS = DISK_BYTES // 512 - DATA_SECTORS
TABLE = "/root/dm_table.py"
PROGRAM = "/root/write_log.py"
RAM = "/mnt/ram"
RAM_MIB = 500
BASE = f"{RAM}/base"
LOGGED = "logged"
RUN_LIMIT_S = 1200.0  # only for hangs: on a crowded host a guest is slow


def install_log(machine: Machine) -> None:
    machine.guest.put(Path(dm_table.__file__), TABLE)
    machine.guest.put(repo_dir() / "lab" / "testbed" / "write_log.py", PROGRAM)


def dm(machine: Machine, *words: str) -> str:
    quoted = " ".join(f"'{word}'" for word in words)
    return sh(machine, f"python3 {TABLE} {quoted}").stdout.strip()


@dataclass(frozen=True)
class Logged:
    """What was done, and the log of it."""

    machine: Machine
    kind: FileSystem
    log: str
    data: str
    seed: str
    operations: int

    def look(self, each: int, lacks: int = 0) -> dict[str, Any]:
        """At each so many flushes. *lacks*: of so many writes one is left out of what is replayed.

        BrokenError if something is not there that the disk has promised.
        """
        words = f"{self.log} {BASE} {self.kind.name} {self.seed} {self.operations} {each}"
        command = f"python3 {PROGRAM} check {words} lacks={lacks}"
        done = self.machine.run_in_guest(command, limit_s=RUN_LIMIT_S)
        report: dict[str, Any] = json.loads(done.stdout)
        if report["wrong"]:
            raise BrokenError("promises-broken", "\n".join(report["wrong"]))
        return report


def _end_others(machine: Machine) -> None:
    """Whatever an earlier one has left, wherever it has ended."""
    for folder in (FOLDER, RAM):
        sh(machine, f"umount {folder} 2>/dev/null", check=False)
    for name in (LOGGED, "data", "log"):
        sh(machine, f"python3 {TABLE} remove {name}", check=False)


def write_logged(
    machine: Machine, kind: FileSystem, seed: str, operations: int, drain_each: int
) -> Logged:
    """Make a file system, and change files on it while all writes are logged."""
    _end_others(machine)
    data = dm(machine, "create", "data", f"0 {DATA_SECTORS} linear {DISK} 0")
    log = dm(machine, "create", "log", f"0 {LOG_SECTORS} linear {DISK} {DATA_SECTORS}")
    sh(machine, f"mkdir -p {RAM} && mount -t tmpfs -o size={RAM_MIB}m tmpfs {RAM}")
    sh(machine, f"{kind.make} {data} && sync && cp --sparse=always {data} {BASE}")
    table = f"0 {DATA_SECTORS} log-writes {data} {log}"
    mount(machine, kind, dm(machine, "create", LOGGED, table))
    words = f"{FOLDER} {seed} {operations} {LOGGED} {drain_each}"
    machine.run_in_guest(f"python3 {PROGRAM} run {words}", limit_s=RUN_LIMIT_S)
    unmount(machine)
    dm(machine, "remove", LOGGED)  # ends the log
    return Logged(machine, kind, log, data, seed, operations)
