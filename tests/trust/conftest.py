# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures: small machines with a TPM."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.setup.loader import Loader
from lab.setup.ovmf import Ovmf, SecureOvmf
from lab.setup.products import MACHINE, TPM, need
from tests.support.loader_tools import make_build_record
from tests.trust.machine import DirectMachine, TrustSecure, TrustUefi


@pytest.fixture(scope="session")
def build_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_build_record(tmp_path_factory.mktemp("loader"))


@pytest.fixture
def machine(tmp_path: Path, build_record: Path) -> DirectMachine:
    need(MACHINE, TPM)
    return DirectMachine(tmp_path, need(Loader()), build_record)


@pytest.fixture
def planted(tmp_path: Path, build_record: Path) -> DirectMachine:
    """With the loader of the planted bugs, none of which is on."""
    need(MACHINE, TPM)
    machine = DirectMachine(tmp_path, need(Loader(mutants=True)), build_record)
    machine.mutant = "none"
    return machine


@pytest.fixture
def uefi(tmp_path: Path, build_record: Path) -> TrustUefi:
    need(MACHINE, TPM)
    return TrustUefi(tmp_path, need(Loader()), build_record, need(Ovmf()))


@pytest.fixture
def secure(tmp_path: Path, build_record: Path) -> TrustSecure:
    need(MACHINE, TPM)
    return TrustSecure(tmp_path, need(Loader()), build_record, need(SecureOvmf()))
