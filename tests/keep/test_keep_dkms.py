# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module of `rem-keep` as its package has it: DKMS builds it for Debian's own kernel.

Goal: the sources of the package are all that it is built from, for the kernels that it is for.
Method: DKMS with folders of its own instead of the host's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.run import run
from lab.setup.keep import write_dkms
from lab.setup.products import Group, Packages, need
from lab.setup.stock_headers import StockHeaders

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def test_dkms_builds_the_module(tmp_path: Path) -> None:
    stock, _ = need(StockHeaders(), Packages((Group.COMPILER, Group.MODULES, Group.TESTS)))
    kernel = f"{stock.version}-amd64"
    source = write_dkms(tmp_path / "root")
    package, version = source.name.rsplit("-", 1)
    tree = tmp_path / "tree"
    tree.mkdir()
    words: list[str | Path] = ["-m", package, "-v", version]
    words += ["--sourcetree", source.parent, "--dkmstree", tree]
    run(["dkms", "add", *words])
    run(["dkms", "build", *words, "-k", kernel, "--kernelsourcedir", stock.folder])
    (built,) = tree.rglob("module/*.ko*")
    assert built.name.startswith("rem_keep.ko")
    assert run(["modinfo", "-F", "vermagic", built]).stdout.startswith(f"{kernel} ")
    # Kernels before 6.12 are refused by name.
    old = run(["dkms", "build", *words, "-k", "6.1.0-99-amd64"], check=False)
    assert not old.ok
    assert "BUILD_EXCLUSIVE" in old.stdout + old.stderr
