# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cut at any point of `off2f install` and `remove` leaves the old program or the new one.

Goal: whatever a cut leaves, the program is one of both, each byte of it, its text there; the next
installation works; what was acknowledged is kept. Method: the tool's own system calls are recorded,
all states that a cut may leave are laid out, one after the other, and the tool judges each. The
negative proof: the same recording with one fsync left out, for each fsync that matters.
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
# By what is synced; what is behind a star is of one run. The others only tidy up.
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
        """The ELF that runs as the program; raises where nothing whole would."""
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
    """The calls, and what there was before; the calls have been done."""
    if scenario != "first":
        made = place.off2f("install", place.program, "--store", place.store)
        assert made.returncode == 0, made.stderr
    (before,) = states_of(tree_on_disk(place.root))
    return record(place.words(scenario), place.log), before


def states_of(tree: Folder) -> list[Tree]:
    return [state for _, state in crash_states([], Path("/"), tree)]


def judge(place: Place, scenario: str, acknowledged: bool) -> None:
    """Of the state that is laid out."""
    old, new = (elf.read_bytes() for elf in place.elfs)
    found = place.elf_of_program()
    # Compared first: pytest would draw the difference of two programs, for minutes.
    if scenario == "remove":
        right = found == old
    else:
        right = found == new or (found == old and not acknowledged)
    assert right, "neither old nor new"
    if place.store.exists():
        done = place.off2f("clean", "--store", place.store)
        assert done.returncode == 0, done.stderr
        right = place.elf_of_program() == found
        assert right, "cleaning took too much"
        converted = place.program.read_bytes()[:4] != b"\x7fELF"
        assert len(list((place.store / "text").iterdir())) == int(converted)
        users = [path for path in (place.store / "users").rglob("*") if path.is_file()]
        assert len(users) == int(converted), "a text has another number of users than programs"
    again = place.off2f("install", place.elfs[1], "--to", place.program, "--store", place.store)
    assert again.returncode == 0, again.stderr
    right = place.elf_of_program() == new
    assert right, "not installed again"


def judge_all(place: Place, scenario: str, calls: list[Call], before: Tree) -> int:
    lay_out(before, place.root)
    tree = tree_on_disk(place.root)
    judged = 0
    for count, state in crash_states(calls, place.root, tree):
        lay_out(state, place.root)
        try:
            judge(place, scenario, acknowledged=count == len(calls))
        except (AssertionError, OSError) as error:
            last = calls[count - 1] if count else None
            raise AssertionError(f"after {count} calls, the last {last}: {error}") from error
        judged += 1
    return judged


@pytest.mark.parametrize("scenario", ["first", "upgrade", "remove"])
def test_cut_leaves_old_or_new(place: Place, scenario: str) -> None:
    calls, before = recorded(place, scenario)
    judged = judge_all(place, scenario, calls, before)
    print(json.dumps({"scenario": scenario, "calls": len(calls), "states": judged}))
    assert judged >= STATES_MIN[scenario]


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
        judge_all(place, scenario, without, before)
