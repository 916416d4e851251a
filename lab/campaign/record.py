# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Record one power cycle of a machine under load: the loader, Go, programs running, and a Stop.

The machine boots and stops twice without caches, which is quick. What that leaves is the
recording's base: a new QEMU, with caches and a recorder, begins with it. Windows, in which every
store is told, are open from the loader's first instruction until the machine is armed again, and
from a while before PWR_OK drops until the end; in between programs run for a while with write-backs
only.

Beside the recording lie the disk as it was at the beginning and at the end, for images that are
booted, and the number of the image that the run began with.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from lab import run
from lab.errors import InfraError, RemError
from lab.machine import Machine, MachineConfig
from lab.machine.plugin import STOPPED_OUT, PluginControl, PluginSpec, attach, ctl_path
from lab.record import decode, read_block
from lab.say import say
from lab.setup import products
from lab.setup.progress import Progress

NVRAM_BYTES = 512 << 20
NVRAM_PHYS = 4 << 30
BOOT_LIMIT_S = 240.0
GO_LIMIT_S = 240.0
HOLD_UP_NS = 2_000_000_000  # no Stop takes so long: the campaign judges images, not the budget
FIRST_HOLD_UP_NS = 60_000_000_000  # of the host's time, which is not the guest's without icount
QUANTUM_INSNS = 2_000  # short turns: vCPUs keep together as on a real machine
RUN_S = 2.0  # of the host's time, with write-backs only
WINDOW_S = 0.01  # of the host's time, before the edge; a store is 40 bytes of the recording
POLL_S = 0.002
# Files written with fsync, pages dirtied, processes made: what a Stop meets on any server.
LOAD = """cd /root
(i=0; while :; do i=$((i+1)); echo $i >> log; sync log; done) >/dev/null 2>&1 &
(while :; do head -c 1000000 /dev/urandom | md5sum; done) >/dev/null 2>&1 &
echo begun"""


@dataclass(frozen=True)
class Recorded:
    """What to record, and where."""

    directory: Path
    name: str
    profile: str = "wsp-d510"
    cpus: int = 2
    mutant: str | None = None
    loader_mutant: str | None = None
    kernel: Path | None = None  # another bzImage


def record(asked: Recorded) -> Path:
    """Make the recording; its directory."""
    progress = Progress()
    words = "nokaslr" + (f" remanence.mutant={asked.mutant}" if asked.mutant else "")
    config = MachineConfig(
        name=asked.name,
        kernel=asked.kernel
        or products.ensure_kernel(progress, "mutants" if asked.mutant else None).bz_image,
        loader=products.ensure_loader(progress, asked.loader_mutant is not None),
        root=products.ensure_root(progress),
        cpus=asked.cpus,
        nvram_bytes=NVRAM_BYTES,
        network="user",
        stop_mode="fast",
        cmdline_extra=words,
        hold_up_ns=HOLD_UP_NS,
    )
    plugin = products.ensure_plugin(progress)
    asked.directory.mkdir(parents=True, exist_ok=True)
    with Machine.create(config, destroy_on_exit=True) as machine:
        _first_stops(machine)
        _lay_base(machine, asked.directory)
        spec = PluginSpec(plugin, cut=True, quantum=QUANTUM_INSNS, outs=(STOPPED_OUT,))
        machine.config = replace(config, icount=True, plugin=_argument(machine, spec, asked))
        (asked.directory / "machine.json").write_text(machine.config.to_json(), encoding="utf-8")
        _cycle(machine, attach(machine, spec), asked)
        _copy(machine.files.disk, asked.directory / "disk.end")
    (asked.directory / "media").unlink()
    return asked.directory


def _copy(source: Path, target: Path) -> None:
    run.run(["cp", "--sparse=always", source, target], what="copying media")


def _first_stops(machine: Machine) -> None:
    """Two, so that each slot has held an image: what is wrong with the older one must show."""
    say("campaign: boots, to have an image to begin with")
    machine.boot()
    machine.wait_ready(BOOT_LIMIT_S)
    machine.guest.wait_ssh(BOOT_LIMIT_S)
    machine.run_in_guest(LOAD)
    machine.guest.close()
    time.sleep(RUN_S)
    _stop(machine)
    first = _newest(machine)
    machine.boot()
    _wait_armed(machine, first)
    _stop(machine)


def _stop(machine: Machine) -> None:
    if not machine.cut(hold_up_ns=FIRST_HOLD_UP_NS).stopped:
        raise RemError("the machine did not stop: see `rem inspect`")


def _lay_base(machine: Machine, directory: Path) -> None:
    nvram = machine.files.nvram(machine.config)
    for name in ("base.media", "media"):
        _copy(nvram, directory / name)
    _copy(machine.files.disk, directory / "disk.base")
    (directory / "first-image").write_text(f"{_newest(machine)}\n", encoding="utf-8")


def _newest(machine: Machine) -> int:
    """The number of the newest image that was committed."""
    record = decode(read_block(machine.files.nvram(machine.config)))
    return max(slot.commit.sequence or 0 for slot in record.slots)


def _argument(machine: Machine, spec: PluginSpec, asked: Recorded) -> str:
    words = {
        "cache": asked.profile,
        "memory": machine.files.nvram(machine.config),
        "media": asked.directory / "media",
        "base": f"{NVRAM_PHYS:#x}",
        "record": asked.directory,
    }
    given = ",".join(f"{name}={value}" for name, value in words.items())
    return f"{spec.argument(ctl_path(asked.name))},{given}"


def _cycle(machine: Machine, control: PluginControl, asked: Recorded) -> None:
    say("campaign: resumes with caches, and records")
    sequence = _newest(machine)
    machine.boot(paused=True, mutant=asked.loader_mutant)
    control.wait_ready()
    control.window(True)
    assert machine.qemu is not None
    machine.qemu.qmp.execute("cont")
    _wait_armed(machine, sequence)
    _window(machine, control, False)
    say(f"campaign: image {sequence} is resumed and armed again")
    time.sleep(RUN_S)
    _window(machine, control, True)
    time.sleep(WINDOW_S)
    machine.qemu.qmp.execute("stop")
    machine.cut()


def _window(machine: Machine, control: PluginControl, begins: bool) -> None:
    assert machine.qemu is not None
    machine.qemu.qmp.execute("stop")
    control.window(begins)
    machine.qemu.qmp.execute("cont")


def _wait_armed(machine: Machine, sequence: int) -> None:
    """Until that image has been entered, and the machine may stop again."""
    end_s = time.monotonic() + GO_LIMIT_S
    nvram = machine.files.nvram(machine.config)
    while time.monotonic() < end_s:
        record = decode(read_block(nvram))
        slot = record.slots[sequence % 2]
        done = any(event.type == "GO_DONE" for event in slot.timeline)
        if slot.timeline_sequence == sequence and done:
            return
        time.sleep(POLL_S)
    raise RemError(f"the machine is not armed {GO_LIMIT_S:g} s after Go")


def free_enough(directory: Path) -> None:
    """A recording takes some GB; to find that out at its end would be late."""
    directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if free < 8 << 30:
        raise InfraError(f"{directory}: {free >> 30} GB free, a recording needs 8: make room")
