# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Persistent memory as users of a stock kernel get it: DKMS, `make install`, pip.

Goal: what docs/how-to/use-persistent-memory.md tells people to type works. Method: the same
commands with folders of their own instead of the host's; in the soak tier modules that DKMS has
built run under Debian's kernel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.setup.pm import MODULES
from lab.testbed.pm_guest import guest_with_stock, sh
from tests.support.claims import machine_name
from tests.support.dkms import Dkms, kernel_of, stock_kernel

PACKAGE, VERSION = "remanence-pm", "1.0.0"
PM = repo_dir() / "pm"

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


def built_by_dkms(place: Path) -> dict[str, Path]:
    """The modules by name."""
    run(["make", "-s", "-C", PM, "dkms", f"DESTDIR={place}"])
    return Dkms(place, PACKAGE, VERSION).build()


@pytest.mark.in_turn
def test_dkms_builds_the_modules(tmp_path: Path) -> None:
    built = built_by_dkms(tmp_path)
    assert set(built) == set(MODULES)
    assert kernel_of(built["pmcore"]) == stock_kernel()


@pytest.mark.soak
def test_modules_of_dkms_run_under_debians_kernel(tmp_path: Path) -> None:
    built = built_by_dkms(tmp_path)
    with guest_with_stock(machine_name("dkms")) as machine:
        for name in MODULES:
            machine.guest.put(built[name], f"/root/dkms-{built[name].name}")
        sh(machine, f"insmod /root/dkms-{built['pmcore'].name} device=/dev/pmem0 format=1")
        for name in MODULES[1:]:
            sh(machine, f"insmod /root/dkms-{built[name].name}")
        sh(machine, "pmadmin create box 1M && echo kept >/dev/pm/box")
        assert sh(machine, "head -c 5 /dev/pm/box").stdout == "kept\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    run(["make", "-s", "-C", PM, f"OUT={place / 'out'}", f"DESTDIR={place}", "install"])
    return place


def test_program_is_built_with_what_is_installed(installed: Path, tmp_path: Path) -> None:
    """By the words of the pkg-config file."""
    local = installed / "usr" / "local"
    config = (local / "lib" / "pkgconfig" / "libpm.pc").read_text(encoding="utf-8")
    assert "prefix=/usr/local\n" in config and "Libs: -L${libdir} -lpm" in config
    source = tmp_path / "program.c"
    source.write_text(
        "#include <libpm.h>\n#include <stdio.h>\n"
        'int main(void) { struct pm *pm; printf("%d\\n", pm_open(&pm, 0)); }\n',
        encoding="utf-8",
    )
    words = [f"-I{local / 'include' / 'libpm'}", f"-L{local / 'lib'}", "-lpm"]
    run(["gcc", "-Wall", "-Werror", source, *words, "-o", tmp_path / "program"])
    env = {"LD_LIBRARY_PATH": str(local / "lib")}
    shown = run([tmp_path / "program"], env=env).stdout
    assert int(shown) < 0  # a negative errno: this host has no persistent memory


def test_tool_and_its_files_are_installed(installed: Path) -> None:
    local = installed / "usr" / "local"
    assert "usage" in run([local / "sbin" / "pmadmin"], check=False).stderr.lower()
    for path in ("share/man/man8/pmadmin.8", "share/man/man3/libpm.3"):
        assert (local / path).stat().st_size > 0
    unit = (installed / "etc/systemd/system/pm-disks.service").read_text(encoding="utf-8")
    assert "pmadmin ramdisk add" in unit
    assert (installed / "etc/udev/rules.d/60-pm.rules").exists()


def test_python_module_is_installed_by_pip(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(PM / "lib", tmp_path / "lib")  # pip leaves files in the folder
    argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    run([*argv, "--target", tmp_path / "site", tmp_path / "lib"], what="pip install")
    done = subprocess.run(
        [sys.executable, "-c", "import pm; print(pm.__file__); pm.Service()"],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path / "site"),
            "LD_LIBRARY_PATH": str(installed / "usr" / "local" / "lib"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{tmp_path / 'site' / 'pm.py'}\n"
    assert done.stderr.splitlines()[-1].startswith(("FileNotFoundError", "OSError"))
