# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs ("mutants") as patches, which are applied to a copy of the sources.

    FOLDER/switch.patch   applied first: the run-time switch that chooses a bug by its name
    FOLDER/NAME.patch     one bug; its paths are those of the repository

A patch of a bug begins with a head of `Key: value` lines. `Violates: PROMISE: VERDICT` names the
promise that the bug breaks and the verdict by which a check must find it; if there are several such
lines, any of these verdicts counts. Other keys belong to the users of the series.

Each patch applies alone after the switch, and all apply together, in any order: a product
with the whole series has every bug and none of them is on until it is chosen. `check_series`
reports where this is not so. Production sources know nothing of the series.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.errors import RemError
from lab.run import run
from lab.setup.inputs import Inputs, source_files

SWITCH = "switch"
# No fuzz: a bug that lands in another place would be another bug.
PATCH_ARGV = ("patch", "-p1", "-s", "-N", "-F0", "--no-backup-if-mismatch", "-r", "-")


@dataclass(frozen=True)
class Violation:
    """A promise that a bug breaks, and the verdict that reports it."""

    promise: str
    verdict: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.verdict}"


@dataclass(frozen=True)
class Patch:
    """One patch of a series."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def head(self) -> dict[str, tuple[str, ...]]:
        """The values of each key above the first empty line, in their order."""
        found: dict[str, tuple[str, ...]] = {}
        for line in self.text.partition("\n\n")[0].splitlines():
            key, colon, value = line.partition(": ")
            if not colon:
                raise RemError(f"{self.path}: not a line of a head, `Key: value`: {line}")
            found[key] = (*found.get(key, ()), value.strip())
        return found

    def one(self, key: str, default: str | None = None) -> str:
        """The value of a key that must not be given twice."""
        values = self.head.get(key, () if default is None else (default,))
        if len(values) != 1:
            raise RemError(f"{self.path}: {len(values)} lines `{key}:` in the head, want 1")
        return values[0]

    @property
    def violates(self) -> tuple[Violation, ...]:
        """What the bug must cause; never empty for a bug."""
        found = []
        for value in self.head.get("Violates", ()):
            match = re.fullmatch(r"([a-z0-9-]+): ([a-z0-9-]+)", value)
            if match is None:
                raise RemError(f"{self.path}: want `Violates: PROMISE: VERDICT`, got: {value}")
            found.append(Violation(match[1], match[2]))
        return tuple(found)

    @property
    def verdicts(self) -> frozenset[str]:
        """The verdicts by which the bug counts as found."""
        return frozenset(violation.verdict for violation in self.violates)

    @property
    def diff(self) -> str:
        """The change of the sources: the text after the line `---`."""
        return self.text.partition("\n---\n")[2]

    @property
    def files(self) -> frozenset[str]:
        """The paths that the patch changes or adds."""
        names = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", self.diff, flags=re.MULTILINE)
        return frozenset(names)

    @property
    def added(self) -> str:
        """The lines that the patch adds."""
        return "\n".join(re.findall(r"^\+(?!\+\+ )(.*)", self.diff, flags=re.MULTILINE))


@dataclass(frozen=True)
class Series:
    """The patches of one folder."""

    folder: Path
    switch: Patch | None
    mutants: tuple[Patch, ...]

    @property
    def patches(self) -> tuple[Patch, ...]:
        """All patches, in the order in which they are applied."""
        return (*((self.switch,) if self.switch else ()), *self.mutants)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(mutant.name for mutant in self.mutants)

    def __getitem__(self, name: str) -> Patch:
        for mutant in self.mutants:
            if mutant.name == name:
                return mutant
        raise RemError(f"{self.folder} has no {name}.patch; there are {', '.join(self.names)}")


def read_series(folder: Path) -> Series:
    """Read a folder of patches; their order is that of their names."""
    patches = [Patch(path, path.read_text("utf-8")) for path in sorted(folder.glob("*.patch"))]
    switch = next((patch for patch in patches if patch.name == SWITCH), None)
    return Series(folder, switch, tuple(patch for patch in patches if patch.name != SWITCH))


def add_series(inputs: Inputs, series: Series) -> None:
    """Make a series an input of a product: the patches' changes, not their heads."""
    for patch in series.patches:
        inputs.add(f"mutants/{patch.name}", patch.diff)


def apply_patch(patch: Patch, into: Path) -> None:
    """Apply a patch to the copy in *into*, or raise RemError with what `patch` printed."""
    done = run([*PATCH_ARGV, "-i", patch.path], cwd=into, check=False)
    if not done.ok:
        printed = (done.stdout + done.stderr).strip().replace("\n", "; ")
        raise RemError(f"{patch.path} does not apply: {printed}")


def copy_sources(repo: Path, names: Iterable[str], into: Path) -> None:
    """Copy files and folders of a checkout to the same places below *into*; no build output."""
    for name in names:
        for file in source_files(repo / name):
            target = into / file.relative_to(repo)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


def patched_copy(repo: Path, names: Iterable[str], patches: Sequence[Patch], into: Path) -> None:
    """Copy the named files and folders of a checkout to *into* and apply the patches there."""
    copy_sources(repo, names, into)
    for patch in patches:
        apply_patch(patch, into)


def check_series(repo: Path, series: Series) -> list[str]:
    """Return the faults of a series, one line each.

    Each patch is applied alone after the switch, then all in order and in the reverse order: the
    two results must be the same, so that no patch depends on another one or lands elsewhere.
    """
    found = [line for mutant in series.mutants for line in _check_head(mutant)]
    found += [line for mutant in series.mutants for line in _tried(repo, series, [mutant])[1]]
    forward, wrong = _tried(repo, series, series.mutants)
    backward, wrong_too = _tried(repo, series, series.mutants[::-1])
    found += [f"in the series: {line}" for line in (*wrong, *wrong_too)]
    if not wrong and not wrong_too:
        found += [
            f"{series.folder}: {name} depends on the order of the patches"
            for name in sorted(forward)
            if forward[name] != backward.get(name)
        ]
    return found


def _check_head(mutant: Patch) -> list[str]:
    found = [] if mutant.violates else [f"{mutant.path}: no line `Violates: PROMISE: VERDICT`"]
    if f'"{mutant.name}"' not in mutant.added:
        found.append(f'{mutant.path}: no line that it adds asks for "{mutant.name}"')
    return found


def _tried(
    repo: Path, series: Series, mutants: Sequence[Patch]
) -> tuple[dict[str, bytes], list[str]]:
    """Return the files after the switch and these patches, and errors."""
    patches = [*((series.switch,) if series.switch else ()), *mutants]
    names = {name for patch in patches for name in patch.files if (repo / name).is_file()}
    with tempfile.TemporaryDirectory(prefix="rem-series-") as folder:
        copy = Path(folder)
        try:
            patched_copy(repo, sorted(names), patches, copy)
        except RemError as error:
            return {}, [error.message]
        files = (path for path in copy.rglob("*") if path.is_file())
        return {str(path.relative_to(copy)): path.read_bytes() for path in files}, []
