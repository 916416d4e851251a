# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on volatile caches a Stop loses nothing, because it flushes; where a flush has no effect,
lines are lost, and the report names their program, their file and what wrote them.

Method: a machine is stopped once, and its media are kept. Each test starts from them: the machine
resumes with the caches of a real one, works, and is cut, which loses what only caches held. After a
Stop memory and media may differ in dead stacks alone, each of which is known by its CPU's saved
stack pointer. The negative proofs: kernels that do not write back, or store afterwards; flushes
without effect of data, of everything, on all CPUs but the first; WBINVD that drops lines as INVD
does; a supply whose energy ends in the middle of WBINVD. The owner of lost lines must not be named
when it has lost nothing.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import run
from lab.addresses import GUEST_ADDRESS
from lab.lost_lines.report import UNSEEN, Group, Loss, Source, loss_of
from lab.lost_lines.source import source_of_machine
from lab.machine import Machine, MachineState
from lab.machine.caches import DEFAULT_PROFILE, is_lost
from lab.machine.cut_plan import UNANNOUNCED, CutPlan
from lab.machine.supply import CutRecord
from lab.testbed.cycle import stop_for_caches
from lab.testbed.flushed import check_only_dead_stacks_differ
from lab.testbed.planted import plant
from lab.verdict import BrokenError, StuckError, after_go, verdict_of
from tests.support.claims import GO_LIMIT_S, booted
from tests.support.proofs import must_be_found
from tests.support.trials import parts

CPUS = 2
RESUME_LIMIT_S = 30.0  # five times what it takes
# Guest time; far more than any Stop takes.
HOLD_UP_NS = 100_000_000
# WBINVD of this machine takes 2.8 ms of the model's time, on all CPUs at once.
TOO_SHORT_NS = 1_500_000
TEXT = "kept by a flush"
# A program with memory of its own, and a file that was never synced. At least this many lines of
# each are still in caches of 8 MiB when the power fails a moment later.
OWNER = """python3 -c '
import os, time
mine = bytearray(1 << 20)
for at in range(0, len(mine), 64):
    mine[at] = 7
open("/root/unsynced", "wb", 0).write(bytes(range(256)) * 1024)
open("/dev/shm/owner", "w").write(str(os.getpid()))
time.sleep(1000)' </dev/null >/dev/null 2>&1 &
until [ -s /dev/shm/owner ]; do sleep 0.1; done; cat /dev/shm/owner"""
OWNED_LINES = 1000
# What a machine shows that has lost data: it depends on which.
LOST_DATA = {"crashed", "does-not-continue", "promises-broken", "kernel-warns"}
# A few hundred a second: a virtio network device has room for 256 until its driver gives it more.
FRAMES = f"""
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    while True:
        sock.sendto(bytes(512), ("{GUEST_ADDRESS}", 9))
        time.sleep(0.005)
"""

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


class Stopped:
    """A stopped machine, which each test resumes from the same state."""

    def __init__(self, machine: Machine, copies: Path) -> None:
        self.machine = machine
        self._files = [machine.files.nvram(machine.config), machine.files.disk]
        self._copies = [copies / file.name for file in self._files]
        self._copy(self._files, self._copies)

    @staticmethod
    def _copy(sources: list[Path], targets: list[Path]) -> None:
        for source, target in zip(sources, targets, strict=True):
            run.run(["cp", "--sparse=always", source, target], what="copying media")

    def resume(self) -> Machine:
        """Resume on volatile caches, and write something new to memory."""
        machine = self.machine
        machine.guest.close()  # its connection belongs to an earlier resume
        if machine.state is MachineState.RUNNING:
            machine.cut(UNANNOUNCED)
        self._copy(self._copies, self._files)
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        machine.run_in_guest(f"echo '{TEXT}' > /dev/shm/text")
        return machine


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with booted("caches", CPUS, "fast") as machine:
        stop_for_caches(machine, DEFAULT_PROFILE, HOLD_UP_NS)
        config = machine.config
        copies = machine.files.nvram(config).parent / f"{config.name}-copies"
        copies.mkdir()
        try:
            yield Stopped(machine, copies)
        finally:
            shutil.rmtree(copies)


def caches_of(record: CutRecord) -> dict[str, int]:
    assert record.caches is not None, "the plugin did not report its caches"
    return record.caches


def write_fresh(machine: Machine) -> str:
    """Write a file in memory, whose lines are in the caches then; return its checksum."""
    words = "head -c 65536 /dev/urandom > /dev/shm/fresh; md5sum /dev/shm/fresh"
    return machine.run_in_guest(words).stdout


def check_goes_on(machine: Machine, fresh: str) -> None:
    """Inner check: a machine that was resumed runs, and has what it was given, also just before."""
    machine.wait_resumed(RESUME_LIMIT_S)
    with after_go():
        text = machine.run_in_guest("cat /dev/shm/text", check=False).stdout
        found = machine.run_in_guest("md5sum /dev/shm/fresh", check=False).stdout
    if text != f"{TEXT}\n":
        raise BrokenError("promises-broken", f"a file in memory has {text!r}")
    if found != fresh:
        raise BrokenError("promises-broken", f"a file just written has {found!r}, not {fresh!r}")
    if warned := machine.kernel_warnings():
        raise BrokenError("kernel-warns", warned[0])


def test_stop_flushes_all_that_it_must(stopped: Stopped) -> None:
    machine = stopped.resume()
    for _ in range(2):
        fresh = write_fresh(machine)
        machine.guest.close()
        record = machine.cut()
        assert record.stopped
        caches = caches_of(record)
        assert caches["lost_lines"] == 0
        assert caches["digest_due"] == caches["digest_media"]
        check_only_dead_stacks_differ(machine)
        assert caches["write_backs"] > 1000, "the caches were empty: nothing was shown"
        machine.resume()
        check_goes_on(machine, fresh)


@pytest.mark.parametrize("which", ["data", "others", "invd"])
def test_disabled_flush_is_detected(stopped: Stopped, which: str) -> None:
    machine = stopped.resume()
    fresh = write_fresh(machine)
    machine.guest.close()
    record = machine.cut(CutPlan(no_flush=which))
    caches = caches_of(record)
    if which == "invd":
        # What was dropped is lost to the CPUs, too, so Stop itself may not get far.
        assert caches["reverted_lines"] > 100
    else:
        assert record.stopped, "the record itself was flushed"
        assert caches["lost_lines"] > 0
        assert is_lost(caches)
    if which == "data":
        # The loader finds a valid record, but not what it describes.
        machine.resume()
        assert machine.wait_boot_note(GO_LIMIT_S).resumed
        with pytest.raises((BrokenError, StuckError)) as caught:
            check_goes_on(machine, fresh)
        assert verdict_of(caught.value) in LOST_DATA


def test_record_that_was_not_flushed_is_a_cold_boot_with_its_reason(stopped: Stopped) -> None:
    machine = stopped.resume()
    record = machine.cut(CutPlan(no_flush="all"))
    assert record.stopped, "the machine believes that it has committed"
    assert is_lost(caches_of(record))
    machine.resume()
    note = machine.wait_boot_note(GO_LIMIT_S)
    assert not note.resumed
    # The slot's commit word on media is as the kernel left it when it armed.
    assert note.reason == "COLD_ALREADY_CONSUMED", note


def test_hold_up_that_ends_in_the_flush_is_a_cold_boot(stopped: Stopped) -> None:
    machine = stopped.resume()
    record = machine.cut(CutPlan(hold_up_ns=TOO_SHORT_NS))
    assert not record.stopped
    assert caches_of(record)["differ_lines"] > 0
    machine.resume()
    assert not machine.wait_boot_note(GO_LIMIT_S).resumed


def test_power_goes_after_any_store_of_a_stop(stopped: Stopped) -> None:
    """Until the commit word is on media, the next boot is cold, whatever was stored."""
    for number in (1, 100, 700):
        machine = stopped.resume()
        begin_s = time.monotonic()
        record = machine.cut(CutPlan(at_store=number))
        assert record.place == f"store {number}", time.monotonic() - begin_s
        assert caches_of(record)["stores"] == number
        machine.resume()
        assert not machine.wait_boot_note(GO_LIMIT_S).resumed


@contextmanager
def with_planted_bugs(purpose: str, profile: str, copies: Path) -> Iterator[Stopped]:
    """A kernel with planted bugs, none of which is on, and caches of that profile."""
    with booted(purpose, CPUS, "fast", parts(mutants=True).kernel) as machine:
        stop_for_caches(machine, profile, HOLD_UP_NS)
        yield Stopped(machine, copies)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with with_planted_bugs("planted", DEFAULT_PROFILE, tmp_path_factory.mktemp("planted")) as it:
        yield it


def check_a_stop_leaves_dead_stacks(machine: Machine) -> None:
    """Inner check: a Stop writes back all that counts."""
    machine.guest.close()
    assert machine.cut().stopped
    check_only_dead_stacks_differ(machine)


@pytest.mark.in_turn("planted")
@pytest.mark.parametrize("raised", ["nmi-in-stop", "mce-in-stop"])
def test_what_no_flag_masks_stores_nothing_after_the_flush(planted: Stopped, raised: str) -> None:
    """An NMI on each CPU; a machine check on the other one, without which the Stop ends."""
    machine = planted.resume()
    plant(machine, raised)
    check_a_stop_leaves_dead_stacks(machine)
    machine.resume()
    machine.wait_resumed(GO_LIMIT_S)
    assert machine.kernel_warnings() == []


@pytest.mark.in_turn("planted")
def test_machine_check_before_the_commit_commits_nothing(planted: Stopped) -> None:
    machine = planted.resume()
    plant(machine, "mce-at-commit")
    machine.guest.close()
    assert not machine.cut().stopped
    machine.resume()
    assert machine.wait_boot_note(GO_LIMIT_S).reason == "COLD_ALREADY_CONSUMED"


@pytest.mark.in_turn("planted")
@pytest.mark.parametrize(
    "bug",
    [
        "skip-flush",
        "nmi-heard",
        "mce-heard",
        pytest.param("skip-other-flush", marks=pytest.mark.soak),
        pytest.param("store-after-flush", marks=pytest.mark.soak),
    ],
)
def test_line_that_a_stop_leaves_dirty_is_found(planted: Stopped, bug: str) -> None:
    """The check passes on the same kernel without the bug: the test above."""
    machine = planted.resume()
    plant(machine, bug)
    with must_be_found(bug):
        check_a_stop_leaves_dead_stacks(machine)


@contextmanager
def frames(machine: Machine) -> Iterator[None]:
    """Frames reach the machine all the time, during a Stop too."""
    argv = [*machine.network.exec_prefix(), sys.executable, "-c", FRAMES]
    child = run.spawn(argv, cwd=machine.files.directory)
    try:
        yield
    finally:
        run.end(child)


@pytest.mark.in_turn("planted")
def test_device_left_on_the_bus_is_found(planted: Stopped) -> None:
    """What it writes after the write-back no store tells; it is in memory and not on media."""
    machine = planted.resume()
    with frames(machine):
        check_a_stop_leaves_dead_stacks(machine)
    machine.resume()
    machine.wait_resumed(GO_LIMIT_S)
    plant(machine, "leave-bus-master")
    with frames(machine), must_be_found("leave-bus-master"):
        check_a_stop_leaves_dead_stacks(machine)


def _owner(machine: Machine) -> str:
    """Start the program; return the name that the report has for it."""
    return f"python3[{int(machine.run_in_guest(OWNER).stdout)}]"


def _loss(machine: Machine) -> tuple[Source, Loss]:
    source = source_of_machine(machine.files, machine.config)
    assert source is not None, "the cut left no view of memory"
    return source, loss_of(source)


def _groups(loss: Loss, kind: str, name: str) -> list[Group]:
    return [g for g in loss.groups if g.owner.kind == kind and name in g.owner.name]


@pytest.mark.in_turn
def test_lost_lines_have_owners_and_writers(stopped: Stopped) -> None:
    machine = stopped.resume()
    program = _owner(machine)
    record = machine.cut(CutPlan(no_flush="data"))
    _, loss = _loss(machine)
    assert loss.problems == ()
    assert len(loss.lines) == caches_of(record)["differ_lines"]
    mine = _groups(loss, "process", program)
    assert sum(group.lines for group in mine) > OWNED_LINES, mine
    (file,) = _groups(loss, "page cache", "ext4:/root/unsynced")
    assert file.lines > OWNED_LINES
    # The kernel wrote the file on its behalf; the program wrote its own memory.
    names = {line.writer for line in loss.lines if line.owner == file.owner} - {UNSEEN}
    assert names and all(name.isidentifier() for name in names), names
    assert any(line.writer.startswith(f"{program}: ") for line in loss.lines)
    assert file.last_ns is not None
    kinds = {group.owner.kind for group in loss.groups}
    assert {"kernel", "slab", "per-cpu", "stack", "page struct"} <= kinds, kinds
    _damaged(machine)


def _damaged(machine: Machine) -> None:
    """With garbage in pieces of memory every line is still counted, and nothing hangs."""
    source, loss = _loss(machine)
    garbage = random.Random(4).randbytes(4096)
    with source.seen.open("r+b") as seen:
        for at in range(8 << 20, source.seen.stat().st_size, 40 << 10):
            seen.seek(at)
            seen.write(garbage)
    spoiled = loss_of(source)
    assert len(spoiled.lines) > len(loss.lines)
    assert spoiled.problems or any(g.owner.kind == "unknown" for g in spoiled.groups)


def test_flushed_lines_are_not_lost(stopped: Stopped) -> None:
    machine = stopped.resume()
    program = _owner(machine)
    assert machine.cut().stopped
    check_only_dead_stacks_differ(machine)
    _, loss = _loss(machine)
    assert _groups(loss, "process", program) == []
    assert _groups(loss, "page cache", "unsynced") == []


@pytest.mark.in_turn
def test_stop_without_energy_reports_its_loss(stopped: Stopped) -> None:
    machine = stopped.resume()
    program = _owner(machine)
    assert not machine.cut(CutPlan(hold_up_ns=TOO_SHORT_NS)).stopped
    _, loss = _loss(machine)
    assert sum(group.lines for group in loss.groups) == len(loss.lines) > 0
    assert _groups(loss, "process", program) + _groups(loss, "page cache", "unsynced")
