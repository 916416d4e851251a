# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The door: packages first and in one go, parts in their order, lanes side by side, clean ends.

Method: invented parts; the installer only notes which groups it is given.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import run
from lab.errors import InfraError, RemError
from lab.paths import repo_dir
from lab.setup import need as door
from lab.setup.need import Packages, Part, Site, need, need_all
from lab.setup.packages import Group

made: list[str] = []
installed: list[tuple[Group, ...]] = []


@pytest.fixture(autouse=True)
def _quiet_installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    installed.clear()
    monkeypatch.setattr(door, "install", installed.append)
    monkeypatch.setattr(door.tools, "use", lambda _: made.append("PATH"))
    monkeypatch.setenv("REM_CACHE", str(tmp_path / "cache"))


@dataclass(frozen=True)
class Base(Part[str]):
    groups = (Group.COMPILER,)

    def make(self, site: Site) -> str:
        made.append("base")
        return "base"


@dataclass(frozen=True)
class Top(Part[str]):
    name: str = "top"

    groups = (Group.KERNEL,)
    lane = "other"

    def requires(self) -> tuple[Part[str]]:
        return (Base(),)

    def make(self, site: Site) -> str:
        made.append(self.name)
        return f"{self.name} on {site[Base()]}"


def test_packages_of_all_parts_come_first_and_at_once() -> None:
    assert need(Top(), Packages((Group.CHECKS,))) == ("top on base", None)
    assert [set(groups) for groups in installed] == [
        {Group.BASE, Group.COMPILER, Group.KERNEL, Group.CHECKS}
    ]
    assert made == ["PATH", "base", "top"]


def test_a_part_is_made_once_for_all_that_require_it() -> None:
    site = need_all([Top("one"), Top("two"), Base()])
    assert sorted(made) == ["PATH", "base", "one", "two"]
    assert site[Top("two")] == "two on base"


def test_a_part_may_not_use_packages_that_were_not_installed() -> None:
    @dataclass(frozen=True)
    class Forgetful(Part[str]):
        def make(self, site: Site) -> str:
            return site[Base()]  # whose packages it does not name

    with pytest.raises(AssertionError, match="packages of its maker"):
        need(Forgetful())


def test_lanes_are_made_side_by_side() -> None:
    """Each part waits for the other: one after the other they would never end."""
    meet = threading.Barrier(2, timeout=60)

    @dataclass(frozen=True)
    class Meeting(Part[int]):
        lane = "one"

        def make(self, site: Site) -> int:
            return meet.wait()

    @dataclass(frozen=True)
    class OtherMeeting(Meeting):
        lane = "two"

    assert sorted(need(Meeting(), OtherMeeting())) == [0, 1]


@dataclass(frozen=True)
class Sleeping(Part[None]):
    pid_file: Path

    lane = "sleep"

    def make(self, site: Site) -> None:
        script = f"echo $$ >{self.pid_file}.new; mv {self.pid_file}.new {self.pid_file}; sleep 1000"
        run.run(["sh", "-c", script])


@dataclass(frozen=True)
class Failing(Part[None]):
    pid_file: Path

    lane = "fail"

    def make(self, site: Site) -> None:
        wait_for(self.pid_file)
        raise InfraError("no more of this")


def wait_for(path: Path) -> None:
    deadline_s = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert path.exists()


def test_a_failure_ends_the_processes_of_other_lanes(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(InfraError, match="no more of this"):
        need(Sleeping(pid_file), Failing(pid_file))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_what_requires_a_failed_part_fails_with_its_error() -> None:
    @dataclass(frozen=True)
    class Broken(Part[None]):
        def make(self, site: Site) -> None:
            made.append("broken")
            raise RemError("the kettle is empty")

    @dataclass(frozen=True)
    class Above(Part[None]):
        lane = "above"

        def requires(self) -> tuple[Part[None]]:
            return (Broken(),)

        def make(self, site: Site) -> None:
            made.append("above")

    with pytest.raises(RemError, match="the kettle is empty"):
        need(Above(), Broken())
    assert made == ["PATH", "broken"]


INTERRUPTED = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, "tests/unit")
import test_setup_need as test
from lab.setup import need as door
door.install = door.tools.use = lambda _: None
door.need(test.Sleeping(Path(sys.argv[1])), test.Sleeping(Path(sys.argv[2])), test.Base())
"""


def test_ctrl_c_ends_the_processes_of_all_lanes(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    argv = [sys.executable, "-c", INTERRUPTED, first, second]
    child = subprocess.Popen(argv, cwd=repo_dir(), stderr=subprocess.DEVNULL)
    wait_for(first)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(first.read_text()), 0)
    assert not second.exists()  # of the same lane: it never began


def test_time_until_all_is_there_counts_from_the_entry_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REM_BEGAN_S", str(int(time.time()) - 100))
    need(Base())
    assert 100 <= door.ready_after_s() < 200
    monkeypatch.delenv("REM_BEGAN_S")
    assert door.ready_after_s() >= 0
