# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine for many trials: its media can be restored to where one Stop left them.

    with bed("stop", pcs=("rem_devices_stop",)) as it:   # booted, marked, stopped, media copied
        it.restore()                    # the media of that Stop again, however the last trial ended
        it.resume()                     # a resumed guest that answers
        it.restore()
        it.power_on_paused()            # no instruction has run: arm a cut
        it.cut_at("consume", 10)        # SIGKILL by the plugin, 10 instructions from there
        it.wait_end()

An image is entered many times here, unlike on real machines: each time from a copy. So no
connection of the guest may be older than the trial.

Guest time runs with the host's (no icount), so each limit in seconds is one of guest time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lab import format as fmt
from lab import run
from lab.errors import HangError, UsageError
from lab.isa import ISAS
from lab.machine import Machine, MachineConfig
from lab.machine.console import READY_MARK
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.cut_points import stopped_address, stopped_outs
from lab.machine.plugin import PluginControl, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.record.block import Record, decode, read_block
from lab.record.boot_note import BootNote
from lab.setup.products import Kernel, Loader, Plugin, need, need_all
from lab.testbed.machines import fast_dir, parts_of
from tests.support.claims import ARCH, MUTANTS, machine_name

CPUS = 2
NVRAM_BYTES = 512 << 20
BOOT_LIMIT_S = 240.0
GO_LIMIT_S = 120.0
STOP_LIMIT_S = 60.0
# Written and made durable before the Stop with which every trial begins.
KEPT_FILE, KEPT_TEXT = "/root/kept", "was durable before the Stop"
BLOCK_BYTES = int(fmt.CONST["REM_BLOCK_BYTES"])


@dataclass(frozen=True)
class Parts:
    """Set-up's products. REM_TEST_KERNEL names another bzImage with its System.map beside it, and
    REM_TEST_MUTANTS one with planted bugs."""

    kernel: Path
    system_map: Path
    loader: Path
    root: Path
    plugin: Path


@cache
def parts(mutants: bool = False, variant: str | None = None) -> Parts:
    own = parts_of(ARCH)
    wanted = Kernel(MUTANTS if mutants else variant or own.kernel.variant)
    its_loader = Loader(mutants, ARCH)
    made = need_all([own.programs, its_loader, own.root, Plugin()])
    given = os.environ.get("REM_TEST_MUTANTS" if mutants else "REM_TEST_KERNEL")
    if given and variant is None:
        kernel = Path(given)
    else:
        kernel = need(wanted).bz_image
    return Parts(
        kernel=kernel,
        system_map=kernel.parent / "System.map",
        loader=made[its_loader],
        root=made[own.root],
        plugin=made[Plugin()],
    )


def symbols(made: Parts, kinds: str = "tT") -> dict[str, int]:
    """Addresses of the loader's and the kernel's functions; the kernel's take precedence. *kinds*:
    those of nm."""
    tool = f"{ISAS[ARCH].tools}nm"
    loader = run.run([tool, made.loader], what="reading the loader's symbols").stdout
    lines = loader.splitlines() + made.system_map.read_text(encoding="utf-8").splitlines()
    table = {}
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[1] in kinds:
            table[words[2]] = int(words[0], 16)
    return table


class Bed:
    """See the module."""

    def __init__(self, machine: Machine, control: PluginControl, spec: PluginSpec, pcs: list[str]):
        self.machine = machine
        self.control = control
        self._spec = spec
        self._pcs = pcs
        self._saved: dict[Path, Path] = {}

    # The media.

    @property
    def nvram(self) -> Path:
        return self.machine.files.nvram(self.machine.config)

    def record(self) -> Record:
        return decode(read_block(self.nvram))

    def read_block(self) -> bytearray:
        return bytearray(read_block(self.nvram))

    def write_block(self, block: bytes | bytearray) -> None:
        """Only while the machine is off."""
        assert len(block) == BLOCK_BYTES
        with self.nvram.open("r+b") as file:
            file.seek(self.machine.config.block_bytes)
            file.write(block)

    def save(self) -> None:
        """Keep the media as they are."""
        files, config = self.machine.files, self.machine.config
        media = [self.nvram, files.disk]
        if config.nvram_second_bytes is not None:
            media.append(files.nvram_second(config))
        for number, source in enumerate(media):
            target = self.nvram.with_name(f"{self.nvram.name}.saved-{number}")
            _copy(source, target)
            self._saved[source] = target

    def restore(self) -> None:
        """Power off, and restore the kept media."""
        self.off()
        assert self._saved, "nothing was saved"
        for medium, saved in self._saved.items():
            _copy(saved, medium)

    def forget(self) -> None:
        for file in self._saved.values():
            file.unlink(missing_ok=True)

    # Power.

    def off(self) -> None:
        """Cut the power, unannounced, if it is on."""
        self.machine.guest.close()
        with suppress(UsageError):  # if it is off, or a Stop has just ended
            self.machine.cut(UNANNOUNCED)
        self.machine.supply.charge = fmt.Charge.FULL

    def power_on(self, **options: Any) -> None:
        self.control.prepare()
        self.machine.boot(**options)

    def power_on_paused(self, **options: Any) -> None:
        self.power_on(paused=True, **options)
        self.control.wait_ready()

    def resume(self, limit_s: float = GO_LIMIT_S) -> BootNote:
        self.power_on()
        return self.machine.wait_resumed(limit_s)

    def boot_decision(self, **options: Any) -> BootNote:
        """The loader's decision; then the power is cut again."""
        self.power_on(**options)
        note = self.machine.wait_boot_note(GO_LIMIT_S)
        self.off()
        return note

    def cold_boot(self, to_guest: bool = True, **options: Any) -> BootNote:
        """Power on, and check that the machine cold boots to a guest that answers. What hangs after
        a cut is not tried again.

        Not *to_guest*: only until the new kernel has logged the reason; for many cold boots.
        """
        self.power_on(**options)
        note = self.machine.wait_boot_note(GO_LIMIT_S)
        assert not note.resumed, f"image {note.sequence} was entered"
        name = note.reason.removeprefix("COLD_").lower().replace("_", "-")
        console = self.machine.console
        assert console is not None
        try:
            console.expect(f"remanence: armed, last boot: {name}\\b", BOOT_LIMIT_S)
            if to_guest:
                console.expect(READY_MARK, BOOT_LIMIT_S)
                self.machine.guest.wait_ssh(BOOT_LIMIT_S)
        except HangError as err:
            places = ", ".join(self.machine.program_counters())
            raise HangError(f"{err.message}; CPUs are at {places}") from err
        return note

    def stop_vm(self) -> None:
        assert self.machine.qemu is not None
        self.machine.qemu.qmp.execute("stop")

    def cont(self) -> None:
        assert self.machine.qemu is not None
        self.machine.qemu.qmp.execute("cont")

    def cut_at(self, symbol: str, insns: int) -> None:
        """Let the machine run until *insns* instructions after *symbol* is next reached."""
        self.stop_vm()
        self.control.arm_cut_at(self.mark(symbol), insns)
        self.cont()

    def mark(self, symbol: str) -> int:
        return self._spec.pc_mark(self._pcs.index(symbol))

    def wait_end(self, limit_s: float = STOP_LIMIT_S) -> None:
        """Wait until QEMU has ended, for any reason; a machine that hangs is an error."""
        self.machine.wait_off(limit_s)

    def was_cut(self) -> bool:
        """Whether the plugin ended the last boot."""
        return self.control.at_cut() is not None

    # The guest.

    def kept(self) -> bool:
        return self.machine.run_in_guest(["cat", KEPT_FILE]).stdout.strip() == KEPT_TEXT

    def last_boot(self) -> str:
        """The reason that the kernel reports."""
        text = self.machine.run_in_guest("cat /sys/kernel/remanence/last_boot").stdout
        return text.split()[0]


class Writer:
    """Appends numbers to a file in the guest; one is acknowledged when fsync has returned and the
    host has read it."""

    FILE = "/root/log"
    SCRIPT = f"i=0; while :; do i=$((i+1)); echo $i >> {FILE}; sync {FILE} && echo $i; done"

    def __init__(self, machine: Machine) -> None:
        self.acked = 0
        self._child = run.spawn(
            machine.guest.command_line(self.SCRIPT),
            cwd=machine.files.directory,
            stdout=subprocess.PIPE,
        )
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self.acked = int(line)
                self._changed.notify_all()

    def wait(self, more: int, limit_s: float = GO_LIMIT_S) -> None:
        """Wait until so many more are acknowledged."""
        with self._changed:
            aim = self.acked + more
            assert self._changed.wait_for(lambda: self.acked >= aim, limit_s), (
                "writing stands still"
            )

    def close(self) -> None:
        run.end(self._child)
        self._thread.join()

    def check(self, machine: Machine) -> None:
        """Check that every acknowledged number is in the file, once and in order."""
        lines = machine.run_in_guest(["cat", self.FILE]).stdout.split()
        wanted = [str(n) for n in range(1, self.acked + 1)]
        assert lines[: self.acked] == wanted, f"{self.acked} were acknowledged, file: {lines[-3:]}"


def tier(places: list[Any], full: int) -> list[Any]:
    """Parameters (place, whether to cold boot up to the guest): about *full* of the places, evenly
    spread, for the full tier, a third of them with the guest; all of them for soak."""
    step = max(len(places) // full, 1)
    return [
        pytest.param(
            place,
            n % step != 0 or n % (3 * step) == 0,
            id=str(place),
            marks=[pytest.mark.soak if n % step else pytest.mark.full],
        )
        for n, place in enumerate(places)
    ]


def _copy(source: Path, target: Path) -> None:
    run.run(["cp", "--sparse=always", source, target], what="copying media")


@contextmanager
def _state_in_memory() -> Iterator[Path | None]:
    """Media are files; on a disk of the host they would be written back for nothing."""
    fast = fast_dir()
    if fast is None:
        yield None
        return
    before = os.environ.get("REM_STATE")
    folder = Path(tempfile.mkdtemp(prefix="rem-trials-", dir=fast))
    os.environ["REM_STATE"] = str(folder)
    try:
        yield fast
    finally:
        if before is None:
            del os.environ["REM_STATE"]
        else:
            os.environ["REM_STATE"] = before
        shutil.rmtree(folder)


@contextmanager
def booted_bed(
    purpose: str,
    pcs: tuple[str, ...] = (),
    mutants: bool = False,
    mutant: str | None = None,
    variant: str | None = None,
    **config: Any,
) -> Iterator[Bed]:
    """A machine that has cold booted; *pcs* are functions at which a cut can be armed, *variant*
    another kernel, which may have planted bugs, too.
    """
    made = parts(mutants, variant)
    table = symbols(made)
    spec = PluginSpec(
        made.plugin,
        cut=True,
        pcs=tuple(table[pc] for pc in pcs),
        stopped=stopped_address(made.system_map, ARCH),
        outs=stopped_outs(ARCH),
    )
    with _state_in_memory() as fast:
        name = machine_name(purpose)
        # The kernel's check of its timer needs five ticks within ten ticks' time, which a vCPU
        # does not get on a busy host; then it panics.
        words = "nokaslr" + (f" remanence.mutant={mutant}" if mutant else "")
        plan = MachineConfig(
            name=name,
            kernel=made.kernel,
            isa=ARCH,
            loader=made.loader,
            root=made.root,
            cpus=CPUS,
            nvram_bytes=NVRAM_BYTES,
            nvram_dir=fast,
            stop_mode="fast",
            cmdline_extra=words,
            plugin=spec.argument(ctl_path(name)),
        )
        with Machine.create(replace(plan, **config), destroy_on_exit=True) as machine:
            host_paced = machine.clock
            control = attach(machine, spec)
            machine.clock = host_paced  # no icount: the hold-up is host time
            it = Bed(machine, control, spec, list(pcs))
            try:
                it.power_on()
                machine.wait_up(BOOT_LIMIT_S)
                machine.run_in_guest(f"echo '{KEPT_TEXT}' > {KEPT_FILE} && sync {KEPT_FILE}")
                yield it
            finally:
                it.forget()


@contextmanager
def bed(purpose: str, pcs: tuple[str, ...] = (), stops: int = 1, **config: Any) -> Iterator[Bed]:
    """A machine that has booted and stopped, its media copied."""
    with booted_bed(purpose, pcs, **config) as it:
        for n in range(stops):
            if n:
                it.resume()
            it.machine.guest.close()  # its connections must not be in the image
            time.sleep(0.2)
            record = it.machine.cut()
            assert record.stopped, "no Stop within the hold-up"
        it.save()
        yield it
