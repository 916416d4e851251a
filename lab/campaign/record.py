# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Record one power cycle of a machine under load: the loader, Go, programs running, and a Stop.

The machine boots and stops twice without caches, which is quick. What that leaves is the
recording's base: a new QEMU, with caches and a recorder, begins with it. Windows, in which every
store is told, are open from the loader's first instruction until the machine is armed again, and
from a while before PWR_OK drops until the end; in between programs run for a while with write-backs
only.

A workload is at work all the time (workload.py). Its disk has a volatile write cache, whose log is
a part of the recording, as is what the workload said to the world: so for each cut it is known what
the disk kept, and what had been promised by then. What was said before the recording began is in
said.base.
"""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab import run
from lab.campaign import workload
from lab.campaign.workload import Workload
from lab.errors import InfraError, RemError, UsageError
from lab.machine import Machine, MachineConfig
from lab.machine.cut_plan import CutPlan
from lab.machine.files import MachineFiles
from lab.machine.machine import remove_leftovers
from lab.machine.plugin import STOPPED_OUT, PluginControl, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.machine.qemu import NVRAM_PHYS
from lab.messages import info
from lab.record.block import decode, read_block
from lab.setup.products import Kernel, Loader, Plugin, Root, need

PROFILE = "wsp-d510"
NVRAM_BYTES = 512 << 20
BOOT_LIMIT_S = 240.0
GO_LIMIT_S = 240.0
HOLD_UP_NS = 2_000_000_000  # no Stop takes so long: the campaign judges images, not the budget
FIRST_HOLD_UP_NS = 60_000_000_000  # of the host's time, which is not the guest's without icount
QUANTUM_INSNS = 2_000  # short turns: vCPUs keep together as on a real machine
RUN_S = 2.0  # of the host's time, with write-backs only
SAID_LINES = 3  # by the workload, while the recording runs and before it
WINDOW_S = 0.01  # of the host's time, before the edge; a store is 40 bytes of the recording
# Where a disk lies about its cache, the power goes when there is something in it.
CACHED_BYTES = 64 << 10
CACHED_LIMIT_S = 60.0
POLL_S = 0.002
# A Stop ends when it has stopped. Where one does not, the recording ends without.
STOP_LIMIT_S = 120.0


@dataclass(frozen=True)
class Recorded:
    """What to record, and where."""

    directory: Path
    name: str
    load: Workload = field(default_factory=workload.standard)
    profile: str = PROFILE
    claimed: bool = False  # the loader is told that the disk's cache survives, and it does not
    cpus: int = 2
    mutant: str | None = None
    late_mutant: bool = False  # which is there only from the Stop on that is recorded
    loader_mutant: str | None = None
    kernel: Path | None = None  # another bzImage


class Patience:
    """A clock of a supply that waits for the end of Stop, however long that takes.

    It does not halt the VM at the edge: QEMU would then flush its disks, which no cut does.
    """

    def begin(self, limit_ns: int) -> None:
        """Nothing."""

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        return 0 if event.wait(STOP_LIMIT_S) else limit_ns + 1


def machine_config(asked: Recorded) -> MachineConfig:
    """The machine, as it boots before it is recorded."""
    wanted = Kernel("mutants") if asked.mutant else Kernel()
    loader, root = need(Loader(mutants=asked.loader_mutant is not None), Root())
    at_boot = asked.mutant is not None and not asked.late_mutant
    words = "nokaslr" + (f" remanence.mutant={asked.mutant}" if at_boot else "")
    return MachineConfig(
        name=asked.name,
        kernel=asked.kernel or need(wanted).bz_image,
        loader=loader,
        root=root,
        cpus=asked.cpus,
        nvram_bytes=NVRAM_BYTES,
        network="user",
        stop_mode="fast",
        cmdline_extra=words,
        disk_cache="volatile",
        disk_claim="protected" if asked.claimed else None,
        hold_up_ns=HOLD_UP_NS,
    )


def fresh(config: MachineConfig) -> Machine:
    """A new machine; one of that name is what a campaign left that was killed."""
    try:
        Machine.open(config.name).destroy()
    except UsageError:
        if MachineFiles.of(config.name).directory.is_dir():
            remove_leftovers(config.name)
    return Machine.create(config, destroy_on_exit=True)


def record(asked: Recorded) -> Path:
    """Make the recording; its directory."""
    with fresh(machine_config(asked)) as machine:
        first_stop(machine, asked.load)
        stop_again(machine)
        return record_cycle(machine, asked)


def record_cycle(machine: Machine, asked: Recorded) -> Path:
    """Record a power cycle of a machine that has stopped; afterwards it has stopped again."""
    config, directory = machine.config, asked.directory
    directory.mkdir(parents=True, exist_ok=True)
    free_enough(directory)
    _lay_base(machine, directory)
    plugin = need(Plugin())
    spec = PluginSpec(plugin, cut=True, quantum=QUANTUM_INSNS, outs=(STOPPED_OUT,))
    machine.config = replace(config, icount=True, plugin=_argument(machine, spec, asked))
    (directory / "machine.json").write_text(machine.config.to_json(), encoding="utf-8")
    asked.load.write(directory)
    _cycle(machine, attach(machine, spec), asked)
    machine.config = config
    # Of what the CPUs had written, that is what is left.
    _copy(directory / "media", machine.files.nvram(config))
    (directory / "media").unlink()
    return directory


def _copy(source: Path, target: Path) -> None:
    run.run(["cp", "--sparse=always", source, target], what="copying media")


def first_stop(machine: Machine, load: Workload) -> None:
    """A cold boot, the workload at work, and a Stop."""
    info("campaign: boots, to have an image to begin with")
    machine.boot()
    machine.wait_up(BOOT_LIMIT_S)
    workload.begin(machine, load)
    workload.wait_said(machine, SAID_LINES, GO_LIMIT_S)
    machine.guest.close()
    stop(machine)


def stop_again(machine: Machine) -> None:
    """So that each slot has held an image: what is wrong with the older one must show."""
    first = _newest(machine)
    machine.boot()
    _wait_armed(machine, first)
    stop(machine)


def stop(machine: Machine) -> None:
    """An announced cut of a machine without caches."""
    if not machine.cut(CutPlan(hold_up_ns=FIRST_HOLD_UP_NS)).stopped:
        raise RemError("the machine did not stop: see `rem inspect`")


def consoles(machine: Machine) -> bytes:
    """What the machine has said in all of its boots."""
    boots = range(1, machine.boots + 1)
    return b"".join(machine.files.console_log(boot).read_bytes() for boot in boots)


def _lay_base(machine: Machine, directory: Path) -> None:
    nvram = machine.files.nvram(machine.config)
    for name in ("base.media", "media"):
        _copy(nvram, directory / name)
    _copy(machine.files.disk, directory / "disk-0.base")
    (directory / "said.base").write_bytes(consoles(machine))


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
        "disklog": machine.files.disk_parts.log,
        "said": machine.files.console_log(machine.boots + 1),
    }
    given = ",".join(f"{name}={value}" for name, value in words.items())
    return f"{spec.argument(ctl_path(asked.name))},{given}"


def _cycle(machine: Machine, control: PluginControl, asked: Recorded) -> None:
    info("campaign: resumes with caches, and records")
    sequence = _newest(machine)
    machine.boot(paused=True, mutant=asked.loader_mutant)
    control.wait_ready()
    control.window(True)
    assert machine.qemu is not None
    machine.qemu.qmp.execute("cont")
    _wait_armed(machine, sequence)
    _window(machine, control, False)
    info(f"campaign: image {sequence} is resumed and armed again")
    time.sleep(RUN_S)
    workload.wait_said(machine, SAID_LINES, GO_LIMIT_S)
    if asked.mutant is not None and asked.late_mutant:
        _plant(machine, asked.mutant)
    _window(machine, control, True)
    time.sleep(WINDOW_S)
    log = machine.files.disk_parts.log
    if asked.claimed:
        _wait_cached(log)
    with log.open("rb") as kept, (asked.directory / "disk-0.log").open("wb") as target:
        machine.cut(clock=Patience())  # which takes the log away, by its name
        shutil.copyfileobj(kept, target)
    shutil.copy(machine.files.console_log(machine.boots), asked.directory / "said.log")


def _plant(machine: Machine, mutant: str) -> None:
    machine.guest.wait_ssh(GO_LIMIT_S)
    machine.run_in_guest(f"echo -n {mutant} > /sys/module/remanence/parameters/mutant")
    machine.guest.close()


def _wait_cached(log: Path) -> None:
    """Until the disk has answered more writes; how many of them a flush covers is to be seen."""
    wanted = log.stat().st_size + CACHED_BYTES
    end_s = time.monotonic() + CACHED_LIMIT_S
    while log.stat().st_size < wanted and time.monotonic() < end_s:
        time.sleep(POLL_S)


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
