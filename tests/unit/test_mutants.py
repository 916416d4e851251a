# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs are only in products of their own, and each has a test that must find it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.campaign.mutants import machine_mutants
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.qemu import BootOptions, Wires, build_command
from lab.paths import repo_dir
from lab.setup.kernel import kernel_key
from lab.setup.loader import loader_key

REPO = repo_dir()
PROOFS = "".join(
    (REPO / "tests" / f"{name}.py").read_text(encoding="utf-8")
    for name in (
        "test_negative_proofs",
        "hardware/test_disk_cache",
        "hardware/test_disk_logged",
        "hardware/test_nvdimm",
    )
)
# One for each watcher of the debug kernel: they are found by it, not by what a cut leaves.
WATCHED = (REPO / "tests" / "hardware" / "test_debug_kernel.py").read_text(encoding="utf-8")


def planted() -> set[str]:
    """Names of all bugs, in the kernel and in the loader."""
    found = set()
    for folder in (
        "kernel/stop",
        "kernel/resume",
        "kernel/hooks",
        "loader/main",
        "loader/core",
        "loader/hw",
    ):
        for path in sorted((REPO / folder).glob("*.[ch]")):
            text = path.read_text(encoding="utf-8")
            found |= set(re.findall(r'mutant\((?:[\w>.-]+, )?"([\w-]+)"\)', text))
    return found


def test_there_are_planted_bugs() -> None:
    assert planted() >= {"skip-commit", "skip-context", "skip-device", "skip-consume"}


@pytest.mark.parametrize("name", sorted(planted()))
def test_every_planted_bug_has_a_test(name: str) -> None:
    # Those of a campaign: tests/hardware/test_campaign_machine.py runs each.
    watched = name.startswith("watch-") and f'"{name}"' in WATCHED
    assert watched or f'mutant="{name}"' in PROOFS or name in machine_mutants()


def test_products_with_planted_bugs_are_others() -> None:
    assert kernel_key("1", "mutants") != kernel_key("1")
    assert loader_key(mutants=True) != loader_key()


def test_a_boot_asks_for_no_bug_unless_told(tmp_path: Path) -> None:
    config = MachineConfig(name="m", kernel=Path("k"), loader=Path("l"), network="none")
    files = MachineFiles(tmp_path)

    def command(**options: str) -> str:
        boot = BootOptions(**options)  # type: ignore[arg-type]
        return " ".join(build_command(config, files, Wires.by_path(), boot, None))

    assert "mutant" not in command()
    assert "name=opt/remanence/mutant,string=skip-consume" in command(mutant="skip-consume")
