# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cut at any point of `off2f install` and `remove` leaves the old program or the new one.

Goal: after any cut the program is one of the two, complete, with its text; the next installation
works; an acknowledged change is kept. Method: the tool's system calls are recorded, all states that
a cut may leave are laid out, one after the other, and the tool checks each. The negative proof: the
same recording with one fsync left out, for each fsync that matters.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.setup.off2f import ensure_tool
from lab.setup.progress import Progress
from tests.support.crash_states import (
    Call,
    Folder,
    Tree,
    crash_states,
    lay_out,
    record,
    tree_on_disk,
)

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

STATES_MIN = {"first": 40, "upgrade": 40, "remove": 10}
# By the path that is synced; a star is for a name that changes. Others only tidy up.
FSYNCS_THAT_MATTER = [
    ("first", "nvm"),
    ("first", "nvm/store"),
    ("first", "nvm/store/users"),
    ("upgrade", "nvm/store/tmp/*"),
    ("upgrade", "nvm/store/text"),
    ("upgrade", "nvm/store/users/*"),
    ("upgrade", "bin/.program.off2f-new"),
    ("upgrade", "bin"),
    ("remove", "bin/.program.off2f-new"),
    ("remove", "bin"),
]
IN_CI = [("upgrade", "bin/.program.off2f-new"), ("upgrade", "bin")]


@dataclass
class Place:
    """A folder that a cut may change, and the two ELFs beside it."""

    tool: Path
    root: Path
    elfs: tuple[Path, Path]
    log: Path

    @property
    def program(self) -> Path:
        return self.root / "bin" / "program"

    @property
    def store(self) -> Path:
        return self.root / "nvm" / "store"

    def off2f(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.tool, *words], capture_output=True, text=True, check=False)

    def words(self, scenario: str) -> list[str]:
        store = ["--store", str(self.store)]
        if scenario == "remove":
            return [str(self.tool), "remove", str(self.program), "--restore", *store]
        return [str(self.tool), "install", str(self.elfs[1]), "--to", str(self.program), *store]

    def elf_of_program(self) -> bytes:
        """Return the ELF that runs as the program; raise if there is no complete one."""
        if self.program.read_bytes()[:4] == b"\x7fELF":
            return self.program.read_bytes()
        back = self.log.with_name("back")
        made = self.off2f("restore", self.program, back)
        assert made.returncode == 0, made.stderr
        return back.read_bytes()


@pytest.fixture(scope="module")
def tool() -> Path:
    return ensure_tool(Progress())


@pytest.fixture
def place(tool: Path, tmp_path: Path) -> Place:
    source = tmp_path / "main.c"
    elfs = []
    for version in (1, 2):
        source.write_text(f"int main(void) {{ return {version}; }}\n", encoding="utf-8")
        elf = tmp_path / f"elf{version}"
        subprocess.run(
            ["gcc", "-nostartfiles", "-Wl,-emain", "-static", source, "-o", elf], check=True
        )
        elfs.append(elf)
    root = tmp_path / "root"
    for folder in (root, root / "bin", root / "nvm"):
        folder.mkdir()
    made = Place(tool, root, (elfs[0], elfs[1]), tmp_path / "log")
    made.program.write_bytes(elfs[0].read_bytes())
    made.program.chmod(0o755)
    return made


def recorded(place: Place, scenario: str) -> tuple[list[Call], Tree]:
    """Run the scenario; return its calls, and the tree before them."""
    if scenario != "first":
        made = place.off2f("install", place.program, "--store", place.store)
        assert made.returncode == 0, made.stderr
    (before,) = trees_of(tree_on_disk(place.root))
    return record(place.words(scenario), place.log), before


def trees_of(tree: Folder) -> list[Tree]:
    return [state for _, state in crash_states([], Path("/"), tree)]


def check(place: Place, scenario: str, acknowledged: bool) -> None:
    """Check the state that is laid out."""
    old, new = (elf.read_bytes() for elf in place.elfs)
    found = place.elf_of_program()
    # Compared first: pytest would print the difference of two programs, for minutes.
    if scenario == "remove":
        good = found == old
    else:
        good = found == new or (found == old and not acknowledged)
    assert good, "neither old nor new"
    if place.store.exists():
        done = place.off2f("clean", "--store", place.store)
        assert done.returncode == 0, done.stderr
        good = place.elf_of_program() == found
        assert good, "cleaning removed too much"
        converted = place.program.read_bytes()[:4] != b"\x7fELF"
        assert len(list((place.store / "text").iterdir())) == int(converted)
        users = [path for path in (place.store / "users").rglob("*") if path.is_file()]
        assert len(users) == int(converted), "the number of users is not that of programs"
    again = place.off2f("install", place.elfs[1], "--to", place.program, "--store", place.store)
    assert again.returncode == 0, again.stderr
    good = place.elf_of_program() == new
    assert good, "the new installation failed"


def check_all(place: Place, scenario: str, calls: list[Call], before: Tree) -> int:
    lay_out(before, place.root)
    tree = tree_on_disk(place.root)
    checked = 0
    for count, state in crash_states(calls, place.root, tree):
        lay_out(state, place.root)
        try:
            check(place, scenario, acknowledged=count == len(calls))
        except (AssertionError, OSError) as error:
            last = calls[count - 1] if count else None
            raise AssertionError(f"after {count} calls, the last {last}: {error}") from error
        checked += 1
    return checked


@pytest.mark.parametrize("scenario", ["first", "upgrade", "remove"])
def test_cut_leaves_old_or_new(place: Place, scenario: str) -> None:
    calls, before = recorded(place, scenario)
    checked = check_all(place, scenario, calls, before)
    print(json.dumps({"scenario": scenario, "calls": len(calls), "states": checked}))
    assert checked >= STATES_MIN[scenario]


def is_of(place: Place, call: Call, pattern: str) -> bool:
    path = call.strings[0].decode().removeprefix(f"{place.root}/")
    return call.name == "fsync" and fnmatch.fnmatchcase(path, pattern)


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        pytest.param(*pair, marks=[] if pair in IN_CI else [pytest.mark.soak])
        for pair in FSYNCS_THAT_MATTER
    ],
)
def test_fsync_left_out_is_found(place: Place, scenario: str, name: str) -> None:
    calls, before = recorded(place, scenario)
    without = [call for call in calls if not is_of(place, call, name)]
    assert len(without) < len(calls)
    with pytest.raises(AssertionError, match="after .* calls, the last"):
        check_all(place, scenario, without, before)
