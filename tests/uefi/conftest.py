# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures: the small machine under UEFI, with the usual loader or with planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.setup.loader import Loader
from lab.setup.need import Part
from lab.setup.ovmf import Firmware, Ovmf, SecureOvmf
from lab.setup.products import MACHINE, need
from tests.support.loader_tools import make_build_record
from tests.uefi.machine import SecureMachine, UefiMachine

Make = Callable[..., UefiMachine]
DEBIANS = SecureOvmf()


@pytest.fixture(scope="session")
def build_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_build_record(tmp_path_factory.mktemp("loader"))


@pytest.fixture
def make(tmp_path: Path, build_record: Path) -> Make:
    """A function that makes the machine of a test; *mutant*: with that planted bug; *keys*: those
    of Secure Boot."""

    def make_machine(
        mutant: str | None = None, secure: bool = False, keys: Part[Firmware] = DEBIANS
    ) -> UefiMachine:
        loader, _ = need(Loader(mutants=mutant is not None), MACHINE)
        if secure:
            machine = SecureMachine(tmp_path, loader, build_record, need(keys, MACHINE)[0])
        else:
            machine = UefiMachine(tmp_path, loader, build_record, need(Ovmf(), MACHINE)[0])
        machine.mutant = mutant
        return machine

    return make_machine


@pytest.fixture
def machine(make: Make) -> UefiMachine:
    return make()
