# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine whose DRAM caches its NVRAM, and programs in it that would notice an old page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from lab.errors import HangError
from lab.machine import Machine, MachineConfig
from lab.paths import repo_dir
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

MIB_BYTES = 1 << 20
PAGE_BYTES = 4096
SYSFS = "/sys/kernel/remanence/dram"
# Of DRAM, what is not a cache: what firmware and the loader use, and may use (kernel/mixed).
NOT_CACHE_BYTES = 34 * MIB_BYTES
CACHE_UNIT_BYTES = 2 * MIB_BYTES
SCAN_MS = 200
BOOT_LIMIT_S = 240.0
MOVE_LIMIT_S = 120.0
ROUND_LIMIT_S = 60.0
BIN = "/usr/local/bin"
PROGRAMS = ("working_set", "file_pages", "short_lives", "mapped_pages")
MEMORY_PROGRAMS = ("working_set", "short_lives")
FOLDER = "/var/tmp/pages"  # of files


def mixed_config(
    config: MachineConfig, cache_bytes: int, words: str = "", scan_ms: int = SCAN_MS
) -> MachineConfig:
    """The same machine with DRAM that caches its NVRAM. *words* are of the kernel's line."""
    line = f"remanence.dram_scan_ms={scan_ms} {words}".strip()
    dram_bytes = NOT_CACHE_BYTES + cache_bytes
    return replace(config, memtype="mixed", dram_bytes=dram_bytes, cmdline_extra=line)


@contextmanager
def mixed_guest(
    name: str, cache_bytes: int, words: str = "", kernel: Path | None = None, **changes: Any
) -> Iterator[Machine]:
    """Booted, with MEMORY_PROGRAMS; destroyed at the end. *words* are of the kernel's line.

    *changes* are cpus, stop_mode, boot_limit_s, programs, if others of PROGRAMS are needed, and
    fields of the machine's configuration.
    """
    programs = changes.pop("programs", MEMORY_PROGRAMS)
    limit_s = changes.pop("boot_limit_s", BOOT_LIMIT_S)
    config = make_config(name, changes.pop("cpus", 2), changes.pop("stop_mode", None), kernel)
    config = replace(mixed_config(config, cache_bytes, words), **changes)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(limit_s)
        install(machine, programs)
        yield machine


def install(machine: Machine, programs: Sequence[str] = MEMORY_PROGRAMS) -> None:
    sources = repo_dir() / "lab" / "testbed"
    machine.guest.put(sources / "page_words.h", "/tmp/page_words.h")
    for name in programs:
        machine.guest.put(sources / f"{name}.c", f"/tmp/{name}.c")
        sh(machine, f"gcc -O2 -o {BIN}/{name} /tmp/{name}.c")


def state(machine: Machine) -> str:
    return sh(machine, f"cat {SYSFS}/state").stdout.strip()


def available_bytes(machine: Machine) -> int:
    """Memory that programs could have, by the kernel's own estimate."""
    text = sh(machine, "sync; awk '/MemAvailable/ {print $2}' /proc/meminfo").stdout
    return int(text) * 1024


def counts(machine: Machine) -> dict[str, int]:
    """What /sys/kernel/remanence/dram/counts has."""
    lines = sh(machine, f"cat {SYSFS}/counts").stdout.splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def rules(machine: Machine) -> list[str]:
    """What can choose the pages of DRAM; the rule in force is in brackets."""
    return sh(machine, f"cat {SYSFS}/policy").stdout.split()


def choose_rule(machine: Machine, name: str) -> None:
    """A rule of kernel/mixed/policy.c is in force."""
    sh(machine, f"echo {name} >{SYSFS}/policy")
    assert f"[{name}]" in rules(machine)


@dataclass(frozen=True)
class Checker:
    """A program that runs in the guest, and ends at the first page with an old content."""

    program: ClassVar[str]
    machine: Machine
    name: str
    group: str = ""  # the folder of the control group that it runs in, if not in that of all

    def begin(self, words: str) -> None:
        """Start it with these words, and wait until it works."""
        joins = f"echo $$ >{self.group}/cgroup.procs; " if self.group else ""
        sh(
            self.machine,
            # The file is there when somebody looks, however late the shell behind begins.
            f": >{self.errors}; setsid sh -c '{joins}{BIN}/{self.program} {words} 2>{self.errors};"
            f" echo ended $? >>{self.errors}' >/dev/null </dev/null 2>&1 &",
        )
        self.wait_rounds(2)

    @property
    def progress(self) -> str:
        return f"/run/{self.name}.round"

    @property
    def errors(self) -> str:
        return f"/run/{self.name}.errors"

    def round(self) -> int:
        """The last round that ended without a difference."""
        text = sh(self.machine, f"cat {self.progress} 2>/dev/null || echo 0").stdout.strip()
        return int(text or 0)

    def check(self) -> None:
        """Raise BrokenError if it has found a page with an old content."""
        text = sh(self.machine, f"cat {self.errors}").stdout.strip()
        if text:
            raise BrokenError("promises-broken", f"{self.name}: {text}")

    def wait_rounds(self, rounds: int) -> None:
        """Wait until so many more have ended, all without a difference."""
        goal = self.round() + rounds

        def gone_on() -> bool:
            self.check()
            return self.round() >= goal

        wait_until(gone_on, f"{self.name} to go on", ROUND_LIMIT_S)

    def stop(self) -> None:
        """Until it and its memory are gone: then the shell that waits for it says so."""
        # Not the shells that have started it, or look for it.
        name = f"'^{BIN}/{self.program} .*{self.progress}'"
        gone = f"grep -q ended {self.errors}"
        sh(self.machine, f"pkill -KILL -f {name}; until {gone}; do sleep 0.1; done")


class WorkingSet(Checker):
    """lab/testbed/working_set.c: its own memory."""

    program = "working_set"

    @classmethod
    def start(
        cls,
        machine: Machine,
        name: str,
        pages: int,
        hot: int,
        pause_us: int = 0,
        children: int = 1,
        *,
        group: str = "",
        lock_at: int = 0,
    ) -> WorkingSet:
        one = cls(machine, name, group)
        one.begin(f"{pages} {hot} {one.progress} {pause_us} {children} {lock_at}")
        return one


class FilePages(Checker):
    """lab/testbed/file_pages.c: pages of files."""

    program = "file_pages"

    @classmethod
    def start(cls, machine: Machine, name: str, pages: int, group: str = "") -> Self:
        one = cls(machine, name, group)
        folder = f"{FOLDER}/{name}"
        sh(machine, f"mkdir -p {folder}")
        one.begin(f"{folder} {pages} {one.progress}")
        return one


class MappedPages(FilePages):
    """lab/testbed/mapped_pages.c: pages of files that it has mapped."""

    program = "mapped_pages"


class IdleProcesses(Checker):
    """lab/testbed/idle_processes.c: processes that do nothing until they are woken."""

    program = "idle_processes"

    @classmethod
    def start(cls, machine: Machine, name: str, processes: int, pages: int) -> IdleProcesses:
        one = cls(machine, name)
        one.begin(f"{processes} {pages} {one.progress}")
        return one

    def wake(self) -> None:
        """All check their pages, and change them."""
        # The oldest is the parent.
        sh(self.machine, f"pkill -USR1 -o -f '^{BIN}/{self.program} .*{self.progress}'")
        self.wait_rounds(1)


class ShortLives(Checker):
    """lab/testbed/short_lives.c: processes that live for a moment."""

    program = "short_lives"

    @classmethod
    def start(cls, machine: Machine, name: str, pages: int, pause_us: int = 0) -> ShortLives:
        one = cls(machine, name)
        one.begin(f"{pages} {one.progress} {pause_us}")
        return one


def wait_count(
    machine: Machine,
    name: str,
    least: int,
    limit_s: float = MOVE_LIMIT_S,
    checkers: Iterable[Checker] = (),
) -> int:
    """Wait until a count is large enough. Return it. *checkers* may not end meanwhile."""
    found = 0

    def enough() -> bool:
        nonlocal found
        for one in checkers:
            one.check()
        found = counts(machine)[name]
        return found >= least

    try:
        wait_until(enough, f"{name} to be {least}", limit_s)
    except HangError as error:
        raise HangError(f"{error.message}: {counts(machine)}") from error
    return found
