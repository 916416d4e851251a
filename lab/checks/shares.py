# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The parts of the project, and how they share the time of a run in CI.

A folder of tests and a crate belong to the share that names them, and to `core` if none does, so
that nothing is left out.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

BUDGET_MINUTES = 80  # a run in CI is ended after 90
SET_UP_MINUTES = 25


@dataclass(frozen=True)
class Share:
    """The time of one part, and its folders of tests and crates.

    *limit_minutes* are of two idle cores; more is reported, and counts towards the whole budget.
    """

    name: str
    limit_minutes: float
    tests: tuple[str, ...]
    crates: tuple[str, ...] = ()


CORE = Share("core", 8, tests=("tests", "loader/host"))
OTHERS = (
    Share(
        "honest hardware",
        10,
        tests=("tests/hardware",),
        crates=("machine/cache", "machine/campaign", "models/power"),
    ),
    Share("pm", 6, tests=("tests/pm",)),
    Share("heap", 5, tests=("tests/heap", "heap/tests"), crates=("heap",)),
    Share("off2f", 4, tests=("tests/off2f",), crates=("off2f",)),
    Share("media", 3, tests=("tests/media",), crates=("models/memory",)),
)
SHARES = (CORE, *OTHERS)


def crate_folders(repo: Path, share: Share) -> list[str]:
    """Folders of the workspace's crates that belong to the share."""
    text = (repo / "Cargo.toml").read_text(encoding="utf-8")
    members: list[str] = tomllib.loads(text)["workspace"]["members"]
    if share is CORE:
        taken = [folder for other in OTHERS for folder in other.crates]
        return [member for member in members if not _below(member, taken)]
    return [member for member in members if _below(member, share.crates)]


def crate_name(repo: Path, folder: str) -> str:
    """Name of the package in a folder, for `cargo -p`."""
    text = (repo / folder / "Cargo.toml").read_text(encoding="utf-8")
    name: str = tomllib.loads(text)["package"]["name"]
    return name


def pytest_words(repo: Path, share: Share) -> list[str]:
    """Words for pytest: the existing folders of a share, without those of others."""
    words = [folder for folder in share.tests if (repo / folder).is_dir()]
    if share is CORE:
        words += [
            f"--ignore={folder}"
            for other in OTHERS
            for folder in other.tests
            if (repo / folder).is_dir()
        ]
    return words


def _below(folder: str, tops: list[str] | tuple[str, ...]) -> bool:
    return any(Path(folder).is_relative_to(top) for top in tops)
