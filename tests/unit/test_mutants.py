# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs are patches that apply; products without them do not depend on them; each one has a
check that must find it, by a verdict that exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import verdict
from lab.campaign.mixed import NAMES as MIXED
from lab.campaign.mutants import machine_mutants
from lab.campaign.persist import NAMES as PERSIST
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.qemu import BootOptions, Wires, build_command
from lab.machine.qemu_parts import MUTANT_FILE
from lab.paths import repo_dir
from lab.setup.kernel import WITH_MUTANTS, kernel_key, kernel_mutants
from lab.setup.loader import loader_key, loader_mutants
from lab.setup.patch_series import Patch, Series, check_series
from tests.support.proofs import planted

REPO = repo_dir()
SERIES = {"kernel": kernel_mutants(REPO), "loader": loader_mutants(REPO)}
TESTS = "".join(
    path.read_text(encoding="utf-8")
    for path in sorted((REPO / "tests").rglob("test_*.py"))
    if path.parent.name != "unit"
)
SHOWN_BY = {"images", "boot", "test", "detector"}


def invariants() -> set[str]:
    """The names of the invariants: the numbered titles of INVARIANTS.md."""
    text = (REPO / "INVARIANTS.md").read_text("utf-8")
    titles = re.findall(r"^### \d+\. (.+)$", text, re.MULTILINE)
    return {title.lower().replace(" ", "-") for title in titles}


def image_verdicts() -> set[str]:
    """The variants of `Broken`, as the engine prints them."""
    source = (REPO / "machine" / "campaign" / "src" / "verdict.rs").read_text("utf-8")
    body = source.partition("pub enum Broken {")[2].partition("\n}")[0]
    names = re.findall(r"^    ([A-Z]\w+)", body, re.MULTILINE)
    return {re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower() for name in names}


def boot_reasons() -> set[str]:
    source = (REPO / "format" / "rem_image.h").read_text("utf-8")
    names = re.findall(r"\bREM_COLD_(\w+)", source)
    return {f"cold-{name.lower().replace('_', '-')}" for name in names}


@pytest.mark.parametrize("room", SERIES)
def test_each_patch_applies_alone_and_in_the_series(room: str) -> None:
    assert len(SERIES[room].names) >= 5
    assert check_series(REPO, SERIES[room]) == []


@pytest.mark.parametrize("room", SERIES)
def test_sources_have_no_planted_bug(room: str) -> None:
    for path in (REPO / room).rglob("*"):
        if path.suffix in {".c", ".h", ".S"} or path.name in {"Kconfig", "Makefile"}:
            assert "mutant" not in path.read_text("utf-8").lower(), path


@pytest.mark.parametrize("name", planted())
def test_planted_bug_names_a_promise_and_a_verdict(name: str) -> None:
    known = {*image_verdicts(), *boot_reasons(), *verdict.MACHINE, *verdict.DETECTORS}
    for violation in planted()[name].violates:
        assert violation.promise in {*invariants(), "kernel-rules"}
        assert violation.verdict in known


def test_verdicts_were_understood() -> None:
    """Otherwise the test above could pass for want of names."""
    assert {"commit-is-last", "consumed-before-used", "all-or-nothing"} <= invariants()
    assert {"differs", "entered-twice", "damaged"} <= image_verdicts()
    assert {"cold-not-committed", "cold-nvdimm-empty"} <= boot_reasons()


@pytest.mark.parametrize("name", planted())
def test_planted_bug_has_a_check(name: str) -> None:
    shown_by = planted()[name].one("Shown-by")
    assert shown_by in SHOWN_BY
    if shown_by in {"images", "boot"}:  # tests/hardware/test_campaign_machine.py runs each
        assert name in machine_mutants()
    elif name not in {*PERSIST, *MIXED}:  # tests/fsync and tests/mixed run each of these
        assert f'"{name}"' in TESTS


@pytest.mark.parametrize("variant", WITH_MUTANTS)
def test_kernels_with_planted_bugs_are_products_of_their_own(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.setup.kernel.tool_version", lambda name: f"{name} 1")
    assert kernel_key("1", variant) != kernel_key("1")


def test_loader_with_planted_bugs_is_a_product_of_its_own() -> None:
    assert loader_key(mutants=True) != loader_key()


@pytest.mark.parametrize(
    ("module", "plain", "planted_key"),
    [
        ("kernel", lambda: kernel_key("1"), lambda: kernel_key("1", "mutants")),
        ("loader", loader_key, lambda: loader_key(mutants=True)),
    ],
)
def test_a_patch_changes_only_the_product_that_has_it(
    module: str,
    plain: Callable[[], str],
    planted_key: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, before_planted = plain(), planted_key()
    other = Series(tmp_path, None, (Patch(tmp_path / "new.patch", "Subject: x\n\n---\ndiff"),))
    monkeypatch.setattr(f"lab.setup.{module}.{module}_mutants", lambda _: other)
    assert plain() == before
    assert planted_key() != before_planted


def test_loader_reads_the_file_that_qemu_gets() -> None:
    switch = SERIES["loader"].switch
    assert switch is not None
    assert f'"{MUTANT_FILE}"' in switch.added


def test_boot_has_a_planted_bug_only_on_request(tmp_path: Path) -> None:
    config = MachineConfig(name="m", kernel=Path("k"), loader=Path("l"), network="none")
    files = MachineFiles(tmp_path)

    def command(**options: str) -> str:
        boot = BootOptions(**options)  # type: ignore[arg-type]
        return " ".join(build_command(config, files, Wires.by_path(), boot, None))

    assert "mutant" not in command()
    assert f"name={MUTANT_FILE},string=skip-consume" in command(mutant="skip-consume")
