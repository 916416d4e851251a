# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The modules are built without a warning for Debian's own 6.12 kernel, too, and know their types.

Goal: the service is for kernels that people have. Method: its headers from apt, W=1, -Werror.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.setup.pm import MODULES, Pm, sources
from lab.setup.products import need
from lab.setup.stock_headers import stock_version

pytestmark = pytest.mark.full


def test_modules_are_built_for_debians_kernel() -> None:
    product = need(Pm(stock=True))
    for module in product.modules:
        argv = ["modinfo", "-F", "vermagic", str(module)]
        magic = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert magic.startswith(f"{stock_version()}-amd64 "), magic


def test_the_dkms_package_has_all_that_is_built(tmp_path: Path) -> None:
    argv = ["make", "-s", "-C", str(repo_dir() / "pm"), "dkms", f"DESTDIR={tmp_path}"]
    subprocess.run(argv, check=True)
    (folder,) = (tmp_path / "usr" / "src").iterdir()
    packed = {path.name for path in folder.iterdir()}
    # What a module is made of; libpm and pmadmin are no part of it.
    wanted = {path.name for path in sources() if path.parent.name not in ("lib", "admin")}
    assert len(wanted) > 30
    assert wanted | {"dkms.conf"} <= packed
    text = (folder / "dkms.conf").read_text(encoding="utf-8")
    assert set(re.findall(r'BUILT_MODULE_NAME.*="(\w+)"', text)) == set(MODULES)


def test_libpm_shows_its_own_names_only() -> None:
    library = need(Pm(stock=True)).folder / "libpm.so.1"
    argv = ["nm", "-D", "--defined-only", str(library)]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {line.split()[-1] for line in lines}
    assert len(names) > 20
    assert all(name.startswith("pm_") or name == "PM_1" for name in names - {"PM_1"})
    assert all("@@PM_1" in name for name in names - {"PM_1"}), names


def test_each_function_of_libpm_is_on_its_manual_page() -> None:
    header = (repo_dir() / "pm" / "lib" / "libpm.h").read_text(encoding="utf-8")
    page = (repo_dir() / "man" / "libpm.3").read_text(encoding="utf-8")
    functions = set(re.findall(r"\b(pm_\w+)\(", header))
    assert len(functions) > 20
    assert {name for name in functions if f"{name}(" not in page} == set()
