# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine whose fsync ends in memory, and a witness of what it has promised."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.errors import HangError, RemError
from lab.machine import Machine, MachineConfig
from lab.machine.cut_plan import UNANNOUNCED, CutPlan
from lab.paths import repo_dir
from lab.run import end, spawn
from lab.setup.products import need
from lab.setup.replay import RemReplay
from lab.testbed import cycle
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until

SYSFS = "/sys/kernel/remanence/persist"
PROFILE = "wsp-c5528"  # of volatile caches
REGISTRY_BYTES = 16 << 20
REGISTRY = f"remanence.persist={REGISTRY_BYTES >> 20}M"
# A busy host makes a Stop of an emulated machine long: its bound must not be missed for that.
HOLD_UP = "remanence.hold_up_us=10000000 remanence.preempt_off_us=2000000"
# Nothing goes to the disk by itself, so that a test sees what the registry has: neither a drain
# nor the kernel's own write-back of what is 30 s old.
LATE_S = 3600
LATE = (
    f"remanence.persist_drain_s={LATE_S} sysctl.vm.dirty_expire_centisecs={LATE_S * 100}"
    # It looks each second. To change this while a machine runs makes it write everything at once.
    " sysctl.vm.dirty_writeback_centisecs=100"
)
# Background write-back begins at a disk's share of what has been written since the boot, and takes
# everything of a disk that has written hardly anything. So two may have these shares at once.
SHARE = "echo 45 >{disk}/bdi/min_ratio"
SOON_S = 1
NO_DEVICE = "1:1"
TOO_SHORT_NS = 50_000  # no Stop has ended by then
DRAIN_S = "/sys/module/remanence/parameters/persist_drain_s"
WITNESS = "/usr/local/lib/witness.py"
BOOT_LIMIT_S = 240.0
CHECK_LIMIT_S = 240.0
ENTER_LIMIT_S = 10.0  # the connection never ends, as its kernel has ended


@contextmanager
def fsync_guest(name: str, words: str = "", **changes: Any) -> Iterator[Machine]:
    """Booted, in force, with the tools; destroyed at the end. *words* are of the kernel's line."""
    config = make_config(name, changes.pop("cpus", 2), kernel=changes.pop("kernel", None))
    if loader := changes.pop("loader", None):
        config = replace(config, loader=loader)
    with machine_of(config, words, **changes) as machine:
        machine.boot()
        wait_up(machine)
        install(machine)
        yield machine


@contextmanager
def caches_guest(name: str, kernel: Path) -> Iterator[Machine]:
    """The same with one CPU, whose caches are volatile: media has what was written back."""
    with fsync_guest(name, kernel=kernel, cpus=1) as machine:
        cycle.stop_for_caches(machine, PROFILE)
        machine.resume()
        machine.wait_resumed(cycle.GO_LIMIT_S)
        yield machine


@contextmanager
def machine_of(config: MachineConfig, words: str = "", **changes: Any) -> Iterator[Machine]:
    """The same, not yet running. *registry*, of *changes*, is the kernel's word for its size."""
    line = f"{changes.pop('registry', REGISTRY)} {HOLD_UP} {LATE} {words}".strip()
    config = replace(config, cmdline_extra=line, **changes)
    with Machine.create(config, destroy_on_exit=True) as machine:
        yield machine


def wait_up(machine: Machine, since: int = 0) -> None:
    """Until it answers. Nothing goes to its disk by itself."""
    machine.wait_up(BOOT_LIMIT_S, since)
    sh(machine, f"test ! -e /sys/block/vda || {SHARE.format(disk='/sys/block/vda')}")


def install(machine: Machine) -> None:
    """The tools, on the guest's disk."""
    machine.guest.put(need(RemReplay()), "/usr/local/bin/rem-replay")
    machine.guest.put(repo_dir() / "lab" / "testbed" / "witness.py", WITNESS)
    sh(machine, "sync")


def lose_power(machine: Machine, **boot: Any) -> None:
    """The power goes without a warning, and comes back. *boot*: options of that boot."""
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    machine.boot(**boot)
    wait_up(machine)


def panic(machine: Machine) -> None:
    """The kernel panics, and resets the machine."""
    assert machine.console is not None
    before = machine.console.position()
    with suppress(RemError):  # this kernel ends before the connection does
        machine.guest.run("echo c >/proc/sysrq-trigger", limit_s=ENTER_LIMIT_S)
    machine.guest.close()
    wait_up(machine, before)


def refuse_image(machine: Machine) -> None:
    """A Stop commits, and the loader boots cold on request."""
    machine.cut()
    machine.guest.close()
    machine.boot(cold=True)
    wait_up(machine)


def fail_stop(machine: Machine) -> None:
    """The power goes while the Stop is under way: there is no image."""
    assert not machine.cut(CutPlan(hold_up_ns=TOO_SHORT_NS)).stopped
    machine.guest.close()
    machine.boot()
    wait_up(machine)


def reset(machine: Machine) -> None:
    """A watchdog resets the machine: the kernel knows nothing of it."""
    assert machine.console is not None and machine.qemu is not None
    before = machine.console.position()
    machine.qemu.qmp.execute("system_reset")
    machine.guest.close()
    wait_up(machine, before)


CRASHES: dict[str, Callable[[Machine], None]] = {
    "power": lose_power,
    "panic": panic,
    "failed-stop": fail_stop,
    "refused": refuse_image,
    "watchdog": reset,
}
"""Ways in which a kernel ends that no Stop saves. Memory stays, and the next boot is a cold one."""


def boot_without_registry(machine: Machine, registry_bytes: int = REGISTRY_BYTES) -> None:
    """Of a machine without power: what this boot finds is only what the disk has."""
    path = machine.files.nvram(machine.config)
    with path.open("r+b") as nvram:
        nvram.seek(machine.config.nvram_bytes - registry_bytes)
        nvram.write(bytes(registry_bytes))
    machine.boot()
    wait_up(machine)


def state(machine: Machine) -> str:
    return sh(machine, f"cat {SYSFS}/state").stdout.strip()


def counts(machine: Machine) -> dict[str, int]:
    lines = sh(machine, f"cat {SYSFS}/counts").stdout.splitlines()
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines)}


def set_write_back_age(machine: Machine, age_s: int) -> None:
    """The kernel's periodic write-back takes what is as old."""
    sh(machine, f"echo {age_s * 100} >/proc/sys/vm/dirty_expire_centisecs")


def drain(machine: Machine) -> None:
    """All that is registered is on its disk when this returns, and no drain is under way."""
    # To exclude a device, here one that nobody has, ends with a drain of everything.
    sh(machine, f"echo +{NO_DEVICE} >{SYSFS}/excluded && echo -{NO_DEVICE} >{SYSFS}/excluded")


def replay(machine: Machine, *options: str, check: bool = True) -> dict[str, Any]:
    """What `rem-replay` reports."""
    done = sh(machine, f"rem-replay --json {' '.join(options)}", check=check)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


class Acks:
    """What a program of the guest acknowledges (`ack NAME N`), remembered on the host."""

    def __init__(self, machine: Machine, command: str) -> None:
        self.machine = machine
        self.acks: dict[str, int] = {}
        words = machine.guest.command_line(f"exec {command}")
        self._process = spawn(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._other: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.rstrip("\n")
            found = re.fullmatch(r"ack (\w+) (\d+)", line)
            if found:
                self.acks[found[1]] = int(found[2])
            else:
                self._other.append(line)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def others(self) -> list[str]:
        """Its other lines so far."""
        return self._other

    @property
    def steps(self) -> int:
        return sum(self.acks.values())

    def wait(self, steps: int, limit_s: float = 240.0) -> None:
        """Until so many more steps are acknowledged, and all files have some."""
        wanted = self.steps + steps
        wait_until(
            lambda: self.steps >= wanted or self._process.poll() is not None,
            f"{steps} steps are acknowledged",
            limit_s,
        )
        if self._process.poll() is not None:
            raise HangError(f"the program ended: {self._other[-5:]}")

    def close(self) -> None:
        """Its acknowledgements are final after this."""
        end(self._process)
        self._thread.join()


class Witness(Acks):
    """Changes files in every way there is. One that *sweeps* also syncs all files at once."""

    def __init__(self, machine: Machine, folder: str, files: int, seed: str, sweeps: bool) -> None:
        self.folder, self.seed = folder, seed
        what = "sweep" if sweeps else "run"
        super().__init__(machine, f"python3 {WITNESS} {what} {folder} {seed} {files}")

    def check(self) -> list[str]:
        """What was acknowledged and is not there. The guest has booted since."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self.acks, file)
            file.flush()
            self.machine.guest.put(Path(file.name), "/run/acks.json")
        words = f"python3 {WITNESS} check {self.folder} {self.seed} /run/acks.json"
        done = self.machine.run_in_guest(words, limit_s=CHECK_LIMIT_S)
        lost: list[str] = json.loads(done.stdout)["lost"]
        return lost


@contextmanager
def witness(
    machine: Machine,
    folder: str = "/root/witness",
    files: int = 4,
    seed: str = "1",
    *,
    sweeps: bool = False,
) -> Iterator[Witness]:
    made = Witness(machine, folder, files, seed, sweeps)
    try:
        yield made
    finally:
        made.close()
