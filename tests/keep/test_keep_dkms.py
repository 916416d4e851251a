# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module of `rem-keep` as its package has it: DKMS builds it for Debian's own kernel.

Goal: the sources of the package are all that it is built from, for the kernels that it is for.
Method: DKMS with folders of its own instead of the host's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.setup.keep import write_dkms
from tests.support.dkms import Dkms, kernel_of, stock_kernel

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def test_dkms_builds_the_module(tmp_path: Path) -> None:
    dkms = Dkms(tmp_path, *write_dkms(tmp_path).name.rsplit("-", 1))
    built = dkms.build()
    assert set(built) == {"rem_keep"}
    assert kernel_of(built["rem_keep"]) == stock_kernel()
    # Kernels before 6.12 are refused by name.
    assert "BUILD_EXCLUSIVE" in dkms.refusal("6.1.0-99-amd64")
