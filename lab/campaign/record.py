# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Record one power cycle of a machine under load: the loader, Go, programs running, and a Stop.

The machine boots and stops twice without caches, which is quick. The result is the recording's
base: a new QEMU, with caches and a recorder, begins with it. Windows, in which every store is
recorded, are open from the loader's first instruction until the machine is armed again, and from
shortly before PWR_OK drops until the end; in between programs run with write-backs recorded only.

A workload runs all the time (workload.py). Its disk has a volatile write cache, whose log is a part
of the recording, as is the workload's output: so for each cut it is known what the disk kept, and
what had been promised. Output from before the recording is in console.base.
"""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.campaign import workload
from lab.campaign.laid import copy_sparse, without_firmware
from lab.campaign.workload import Workload
from lab.errors import InfraError, RemError, UsageError
from lab.isa import IsaName
from lab.machine import Machine, MachineConfig
from lab.machine.cut_plan import CutPlan
from lab.machine.cut_points import begin_of, stopped_address, stopped_outs
from lab.machine.files import MachineFiles
from lab.machine.machine import remove_leftovers
from lab.machine.plugin import PluginControl, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.machine.qemu_parts import place_words
from lab.machine.supply import CutRecord
from lab.messages import info
from lab.record.block import decode, read_block
from lab.setup.kernel import mutants_of
from lab.setup.ovmf import Ovmf
from lab.setup.products import Kernel, Loader, Plugin, need, need_all
from lab.testbed.fsync_guest import HOLD_UP, LATE, REGISTRY
from lab.testbed.machines import FirmwareName, firmware_fields, parts_of, with_log
from lab.testbed.planted import plant
from lab.verdict import BrokenError

PROFILE = "wsp-d510"
LOG_MIB = 8  # of a disk whose flushes end in memory
# A boot that finds a damaged ring goes on, so that the check can say what is lost.
FLUSHES = "remanence.persist=32M remanence.persist_redo=12M remanence.persist_redo_force=1"
NVRAM_BYTES = 512 << 20
BOOT_LIMIT_S = 240.0
GO_LIMIT_S = 240.0
# DRAM as a cache: a few MiB, in which the hot pages of the workload have room.
MIXED_DRAM_BYTES = 40 << 20
MIXED_SCAN_MS = 50
HOLD_UP_NS = 2_000_000_000  # no Stop takes so long: the campaign checks images, not the budget
FIRST_HOLD_UP_NS = 60_000_000_000  # of the host's time, which is not the guest's without icount
QUANTUM_INSNS = 2_000  # short turns keep vCPUs together as on a real machine
RUN_S = 2.0  # of the host's time, with write-backs only
PROMISED_LINES = 3  # of the workload, during the recording and before it
WINDOW_S = 0.01  # of the host's time, before the edge; a store is 40 bytes of the recording
# With a disk that lies about its cache the power fails when there is something in it.
CACHED_BYTES = 64 << 10
CACHED_LIMIT_S = 60.0
POLL_S = 0.002
# Of the host's time; a Stop that does not end within it hangs.
STOP_LIMIT_S = 120.0


@dataclass(frozen=True)
class Recorded:
    """What to record, and where."""

    directory: Path
    name: str
    load: Workload = field(default_factory=workload.standard)
    profile: str = PROFILE
    claimed: bool = False  # the disk's cache is described as protected, and is not
    mixed: bool = False  # DRAM caches NVRAM
    persist: bool = False  # fsync ends in memory
    flushes: bool = False  # and the disk's flushes do
    cpus: int = 2
    mutant: str | None = None
    late_mutant: bool = False  # planted only before the Stop that is recorded
    loader_mutant: str | None = None
    kernel: Path | None = None  # another image
    isa: IsaName = "x86_64"
    firmware: FirmwareName = "direct"


class Patience:
    """A clock that waits for the end of Stop, however long that takes.

    It does not halt the VM at the edge: QEMU would then flush its disks, which no cut does.
    """

    def begin(self, limit_ns: int) -> None:
        """Nothing to do."""

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        return 0 if event.wait(STOP_LIMIT_S) else limit_ns + 1


def machine_config(recorded: Recorded) -> MachineConfig:
    """The machine before it is recorded."""
    parts = parts_of(recorded.isa)
    wanted = Kernel(mutants_of(parts.kernel.variant)) if recorded.mutant else parts.kernel
    loader = Loader(mutants=True, isa=recorded.isa) if recorded.loader_mutant else parts.loader
    built = need_all([parts.programs, loader, parts.root])
    firmware = firmware_fields(need(Ovmf())) if recorded.firmware == "uefi" else {}
    at_boot = recorded.mutant is not None and not recorded.late_mutant
    words = "nokaslr" + (f" remanence.mutant={recorded.mutant}" if at_boot else "")
    words += f" remanence.dram_scan_ms={MIXED_SCAN_MS}" if recorded.mixed else ""
    if recorded.persist:
        words += f" {FLUSHES if recorded.flushes else REGISTRY} {HOLD_UP} {LATE}"
    config = MachineConfig(
        name=recorded.name,
        kernel=recorded.kernel or need(wanted).bz_image,
        isa=recorded.isa,
        loader=built[loader],
        root=built[parts.root],
        cpus=recorded.cpus,
        memtype="mixed" if recorded.mixed else "nvram",
        dram_bytes=MIXED_DRAM_BYTES if recorded.mixed else None,
        nvram_bytes=NVRAM_BYTES,
        network="user",
        stop_mode="fast",
        cmdline_extra=words,
        disk_cache="volatile",
        disk_claim="protected" if recorded.claimed else None,
        hold_up_ns=HOLD_UP_NS,
        **firmware,
    )
    return with_log(config, LOG_MIB) if recorded.flushes else config


def flushes_end_in_memory(config: MachineConfig) -> bool:
    """Whether it is a machine of Recorded.flushes."""
    return FLUSHES in config.cmdline_extra


def fresh(config: MachineConfig) -> Machine:
    """A new machine; an existing one of that name was left by a killed campaign."""
    try:
        Machine.open(config.name).destroy()
    except UsageError:
        if MachineFiles.of(config.name).directory.is_dir():
            remove_leftovers(config.name)
    return Machine.create(config, destroy_on_exit=True)


def record(recorded: Recorded) -> Path:
    """Make the recording; return its directory."""
    with fresh(machine_config(recorded)) as machine:
        first_stop(machine, recorded.load)
        stop_again(machine)
        return record_cycle(machine, recorded)


def record_cycle(machine: Machine, recorded: Recorded) -> Path:
    """Record a power cycle of a machine that has stopped; afterwards it has stopped again."""
    config, directory = machine.config, recorded.directory
    directory.mkdir(parents=True, exist_ok=True)
    free_enough(directory)
    _lay_base(machine, directory)
    plugin = need(Plugin())
    spec = PluginSpec(
        plugin,
        cut=True,
        quantum=QUANTUM_INSNS,
        stopped=stopped_address(config.kernel.parent / "System.map", config.isa),
        outs=stopped_outs(config.isa),
        begin=begin_of(config),
    )
    machine.config = replace(config, icount=True, plugin=_argument(machine, spec, recorded))
    (directory / "machine.json").write_text(machine.config.to_json(), encoding="utf-8")
    recorded.load.write(directory)
    _cycle(machine, attach(machine, spec), recorded)
    machine.config = config
    # What is left of the CPUs' writes.
    copy_sparse(directory / "media", machine.files.nvram(config))
    (directory / "media").unlink()
    return directory


def first_stop(machine: Machine, load: Workload) -> None:
    """A cold boot, the workload's start, and a Stop."""
    info("campaign: booting for a first image")
    machine.boot()
    machine.wait_up(BOOT_LIMIT_S)
    workload.begin(machine, load)
    workload.wait_printed(machine, PROMISED_LINES, GO_LIMIT_S)
    machine.guest.close()
    stop(machine)


def stop_again(machine: Machine) -> None:
    """Stop a second time, so that both slots have held an image."""
    first = _newest(machine)
    machine.boot()
    _wait_armed(machine, first)
    stop(machine)


def stop(machine: Machine) -> None:
    """An announced cut of a machine without caches."""
    if not machine.cut(CutPlan(hold_up_ns=FIRST_HOLD_UP_NS)).stopped:
        raise RemError("the machine did not stop: see `rem inspect`")


def consoles(machine: Machine) -> bytes:
    """The console output of all boots."""
    boots = range(1, machine.boots + 1)
    return b"".join(machine.files.console_log(boot).read_bytes() for boot in boots)


def _lay_base(machine: Machine, directory: Path) -> None:
    nvram = machine.files.nvram(machine.config)
    without_firmware(nvram, directory / "base.media", machine.config)
    copy_sparse(nvram, directory / "media")
    copy_sparse(machine.files.disk, directory / "disk-0.base")
    (directory / "console.base").write_bytes(consoles(machine))


def _newest(machine: Machine) -> int:
    """The sequence of the newest committed image."""
    record = decode(read_block(machine.files.nvram(machine.config)))
    return max(slot.commit.sequence or 0 for slot in record.slots)


def _argument(machine: Machine, spec: PluginSpec, recorded: Recorded) -> str:
    words = {
        "cache": recorded.profile,
        "memory": machine.files.nvram(machine.config),
        "media": recorded.directory / "media",
        "record": recorded.directory,
        "disklog": machine.files.disk_parts.log,
        "console": machine.files.console_log(machine.boots + 1),
    }
    given = [f"{name}={value}" for name, value in words.items()]
    own = spec.argument(ctl_path(recorded.name))
    return ",".join([own, *place_words(machine.config), *given])


def _cycle(machine: Machine, control: PluginControl, recorded: Recorded) -> None:
    info("campaign: resuming with caches, recording")
    sequence = _newest(machine)
    machine.boot(paused=True, mutant=recorded.loader_mutant)
    control.wait_ready()
    control.window(True)
    assert machine.qemu is not None
    machine.qemu.qmp.execute("cont")
    _wait_armed(machine, sequence)
    _window(machine, control, False)
    info(f"campaign: image {sequence} is resumed and armed again")
    time.sleep(RUN_S)
    workload.wait_printed(machine, PROMISED_LINES, GO_LIMIT_S)
    if recorded.mutant is not None and recorded.late_mutant:
        _plant(machine, recorded.mutant)
    _window(machine, control, True)
    time.sleep(WINDOW_S)
    log = machine.files.disk_parts.log
    if recorded.claimed:
        _wait_cached(log)
    with log.open("rb") as kept, (recorded.directory / "disk-0.log").open("wb") as target:
        ended = machine.cut(clock=Patience())  # removes the log by its name
        shutil.copyfileobj(kept, target)
    shutil.copy(machine.files.console_log(machine.boots), recorded.directory / "console.log")
    must_have_stopped(ended)


def must_have_stopped(ended: CutRecord) -> None:
    """Every image of a Stop that hangs is a right cold boot, so no image shows it."""
    if not ended.stopped:
        raise BrokenError("stop-hangs", f"the Stop has not ended within {STOP_LIMIT_S:g} s")


def _plant(machine: Machine, mutant: str) -> None:
    machine.guest.wait_ssh(GO_LIMIT_S)
    plant(machine, mutant)
    machine.guest.close()


def _wait_cached(log: Path) -> None:
    """Wait until the disk has answered more writes; a flush may have covered some of them."""
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
    """Wait until that image has been entered and the machine may stop again."""
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
    """Raise InfraError early if there is no room for a recording, which takes some GB."""
    directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if free < 8 << 30:
        raise InfraError(f"{directory}: {free >> 30} GB free, a recording needs 8: make room")
