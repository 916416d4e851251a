# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures: the small machine under UEFI, with the usual loader or with planted bugs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.setup.loader import Loader
from lab.setup.ovmf import Ovmf, SecureOvmf
from lab.setup.products import MACHINE, need
from tests.uefi.machine import SecureMachine, UefiMachine

Make = Callable[..., UefiMachine]


@pytest.fixture(scope="session")
def build_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(Loader())  # its compilers
    out = tmp_path_factory.mktemp("loader")
    subprocess.run(["make", "-s", "-C", repo_dir() / "loader", "tools", f"OUT={out}"], check=True)
    return out / "host" / "build-record"


@pytest.fixture
def make(tmp_path: Path, build_record: Path) -> Make:
    """A function that makes the machine of a test; *mutant*: with that planted bug."""

    def make_machine(mutant: str | None = None, secure: bool = False) -> UefiMachine:
        loader, _ = need(Loader(mutants=mutant is not None), MACHINE)
        if secure:
            machine = SecureMachine(tmp_path, loader, build_record, need(SecureOvmf(), MACHINE)[0])
        else:
            machine = UefiMachine(tmp_path, loader, build_record, need(Ovmf(), MACHINE)[0])
        machine.mutant = mutant
        return machine

    return make_machine


@pytest.fixture
def machine(make: Make) -> UefiMachine:
    return make()
