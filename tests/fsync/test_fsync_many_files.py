# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: with a thousand dirty files in flight each fsync that was acknowledged in memory is there
after a panic, a loss of power, a Stop that fails, an image that is refused and a watchdog's reset;
and the file system is consistent. So it is with DRAM as a cache.

Method: lab/testbed/many_files.py on a second disk; the host remembers each acknowledgement. The
negative proof: the same with the registry wiped while the power is off.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.paths import repo_dir
from lab.testbed import fsync_guest, mixed_guest
from lab.testbed.fsx import EXT4, FOLDER, XFS, FileSystem, check_structure, fsx_config, make, mount
from lab.testbed.fsync_checks import replay
from lab.testbed.fsync_guest import CRASHES, Acks, counts, install, machine_of, state, wait_up
from lab.testbed.mixed_checks import CACHE_BYTES
from lab.testbed.mixed_guest import mixed_config
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.verdict import BrokenError
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

FILES = 1000
REGISTRY_MIB = 80  # has room for as many files
PROGRAM = "/usr/local/lib/many_files.py"
RUNNING = "[/]usr/local/lib/many_files.py"  # a pattern that is not in its own command line
ACKED = 400
IN_MEMORY_MIN = 50
DRAM_MIN = 100  # pages of programs and files, at least, that DRAM has by then
WAIT_LIMIT_S = 600.0


@pytest.fixture(scope="module", params=["nvram", "mixed"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    config, words = fsx_config(machine_name(f"fsync-many-{request.param}")), ""
    if request.param == "mixed":
        config = mixed_config(config, CACHE_BYTES)
        words = config.cmdline_extra
    with machine_of(config, words, registry=f"remanence.persist={REGISTRY_MIB}M") as made:
        made.boot()
        wait_up(made)
        install(made)
        made.guest.put(repo_dir() / "lab" / "testbed" / "many_files.py", PROGRAM)
        sh(made, "sync")
        yield made


def begin(machine: Machine, kind: FileSystem) -> None:
    if state(machine) != "memory":
        fsync_guest.replay(machine, "--discard", check=False)
    # A test that has failed leaves its program.
    ended = f"pkill -KILL -f {RUNNING}; while pgrep -f {RUNNING} >/dev/null; do sleep 0.1; done"
    sh(machine, f"{ended}; umount {FOLDER} 2>/dev/null; true")
    make(machine, kind)
    assert state(machine) == "memory"


def work(machine: Machine) -> Acks:
    """Until enough is acknowledged; it goes on."""
    before = counts(machine)
    seen = Acks(machine, f"python3 {PROGRAM} run {FOLDER}/many {FILES}")
    seen.wait(ACKED, WAIT_LIMIT_S)
    # A file that nobody has synced for ten seconds is let go, and its next fsync is by its disk.
    assert counts(machine)["in_memory"] - before["in_memory"] > IN_MEMORY_MIN
    if machine.config.memtype == "mixed":
        assert mixed_guest.counts(machine)["used"] > DRAM_MIN
    return seen


def check(machine: Machine, seen: Acks) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(seen.acks, file)
        file.flush()
        machine.guest.put(Path(file.name), "/run/acks.json")
    done = machine.run_in_guest(f"python3 {PROGRAM} check {FOLDER}/many /run/acks.json")
    report = json.loads(done.stdout)
    assert report["files"] == FILES
    if report["lost"]:
        raise BrokenError("promises-broken", "\n".join(report["lost"]))


@pytest.mark.parametrize(
    ("kind", "way"),
    [(kind, way) for kind in (EXT4, XFS) for way in CRASHES],
)
def test_all_that_was_acknowledged_is_there(machine: Machine, kind: FileSystem, way: str) -> None:
    begin(machine, kind)
    seen = work(machine)
    try:
        CRASHES[way](machine)
    finally:
        seen.close()
    mount(machine, kind)
    replay(machine)
    check(machine, seen)
    assert not kernel_complaints(machine)
    check_structure(machine, kind)


def test_it_is_lost_with_the_registry(machine: Machine) -> None:
    begin(machine, EXT4)
    seen = work(machine)
    try:
        machine.cut(UNANNOUNCED)
    finally:
        seen.close()
    machine.guest.close()
    fsync_guest.boot_without_registry(machine, REGISTRY_MIB << 20)
    mount(machine, EXT4)
    with pytest.raises(BrokenError):
        check(machine, seen)
    check_structure(machine, EXT4)
