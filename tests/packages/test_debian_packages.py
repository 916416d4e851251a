# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packages install, upgrade and go by apt alone, and are what Debian asks of packages.

Goal: on Debian 12 and on 13, as mmdebstrap makes them, apt installs all packages from a folder that
`rem package` wrote; every program starts; hooks of kernels are called; an upgrade has the later
version; after a purge no file is left. lintian has no errors, and finds one that is planted.
Method: a root of the release, in which apt runs under chroot; the packages are made once, here.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import run
from lab.distribution.lintian import errors_of, said_by_lintian
from lab.setup.kernel import PACKED, Kernel
from lab.setup.products import need
from tests.packages.conftest import Repository, System

pytestmark = pytest.mark.soak

ALL = (
    *("linux-image-remanence", "linux-headers-remanence", "remanence-loader", "remanence-tools"),
    *("remanence-vm", "remanence-keep", "libpm1", "libpm-dev", "libnvheap-dev"),
)
PROGRAMS = ("off2f", "pmadmin", "rem-keep", "rem-replay", "rem-vm", "remctl")
# Debian keeps groups of packages that are gone, as their files may stay; Debian 13 gets its shadow
# files with adduser.
LEFT_BY_ADDUSER = {
    f"etc/{name}"
    for name in (".pwd.lock", "group-", "gshadow", "gshadow-", "passwd-", "shadow", "shadow-")
}
HOOK = """#!/bin/sh
echo "$(basename "$(dirname "$0")") $*" >>/tmp/hooks
"""


def versions(system: System) -> dict[str, str]:
    """Versions of our installed packages by name."""
    format_words = "${db:Status-Abbrev}${Package} ${Version}\\n"
    lines = system.call("dpkg-query", "-W", "-f", format_words).stdout.splitlines()
    found = (line[2:].split() for line in lines if line.startswith("ii"))
    return {name: version for name, version in found if "+git" in version}


def let_others_come_and_go(system: System) -> None:
    """Install and remove Debian's packages that come with ours, as some leave files: what stays of
    them is none of ours."""
    lines = system.apt("install", "-s", *ALL).stdout.splitlines()
    others = [line.split()[1] for line in lines if line.startswith("Inst ") and "+git" not in line]
    system.apt("install", "-y", *others)
    system.call("apt-mark", "auto", *others)
    system.apt("autoremove", "-y", "--purge")


def test_apt_installs_upgrades_and_removes_all(system: System, repository: Repository) -> None:
    kernel = need(Kernel(PACKED)).version
    for stage in ("postinst", "prerm", "postrm"):
        hook = system.root / f"etc/kernel/{stage}.d/zz-test"
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(HOOK, encoding="utf-8")
        hook.chmod(0o755)
    let_others_come_and_go(system)
    before = system.files()

    system.apt("install", "-y", *ALL)
    installed = versions(system)
    assert {*ALL, f"linux-image-{kernel}", f"linux-headers-{kernel}"} == set(installed)
    assert set(installed.values()) == {repository.commit.version}
    assert system.call("dpkg", "--audit").stdout == ""
    assert system.call("dpkg", "--verify", *installed).stdout == ""
    for program in PROGRAMS:
        assert program in system.call(program, "--help").stdout
    modules = (system.root / "lib/modules" / kernel / "modules.dep").read_text(encoding="utf-8")
    assert "extra/pmcore.ko:" in modules and "extra/binfmt_off2f.ko:" in modules
    assert system.call("getent", "group", "pm").stdout.startswith("pm:")
    build = system.root / "lib/modules" / kernel / "build"
    assert (system.root / str(build.readlink()).lstrip("/") / "Module.symvers").is_file()

    system.offer(repository.later_debs)
    system.apt("dist-upgrade", "-y")
    assert versions(system) == dict.fromkeys(installed, repository.later.version)

    system.apt("purge", "-y", *installed)
    hooks = (system.root / "tmp/hooks").read_text(encoding="utf-8").split("\n")
    for stage in ("postinst", "prerm", "postrm"):
        assert any(f"{stage}.d {kernel} /boot/vmlinuz-{kernel}" in line for line in hooks), stage
    assert versions(system) == {}
    system.apt("autoremove", "-y", "--purge")
    left = system.files() - before - LEFT_BY_ADDUSER
    assert left - system.files_of_packages() == set()  # Debian 13 keeps adduser once it is there


def test_lintian_finds_no_error(repository: Repository) -> None:
    assert errors_of(said_by_lintian(sorted(repository.debs.glob("*.deb")))) == []


def test_lintian_finds_a_planted_error(tmp_path: Path, repository: Repository) -> None:
    """The same package without its copyright."""
    package = next(repository.debs.glob("libpm1_*.deb"))
    run.run(["dpkg-deb", "-R", package, tmp_path / "files"])
    shutil.rmtree(tmp_path / "files/usr/share/doc/libpm1")
    spoilt = tmp_path / package.name
    run.run(["dpkg-deb", "--root-owner-group", "-b", tmp_path / "files", spoilt])
    assert any("no-copyright-file" in line for line in errors_of(said_by_lintian([spoilt])))


def test_all_files_have_the_time_of_the_commit(repository: Repository) -> None:
    """Those of products that were made before it, too."""
    time = datetime.fromtimestamp(repository.later.time_s, UTC)
    for package in repository.later_debs.glob("*.deb"):
        listed = run.run(["dpkg-deb", "-c", package], env={"TZ": "UTC"}).stdout.splitlines()
        assert {" ".join(line.split()[3:5]) for line in listed} == {f"{time:%Y-%m-%d %H:%M}"}


def test_another_commit_gives_other_bytes(repository: Repository) -> None:
    """What `rem package --check` compares does differ if the time of the commit does."""
    ours = {path.name.split("_")[0]: path for path in repository.debs.glob("*.deb")}
    others = {path.name.split("_")[0]: path for path in repository.later_debs.glob("*.deb")}
    assert ours.keys() == others.keys()
    assert all(ours[name].read_bytes() != others[name].read_bytes() for name in ours)


@pytest.mark.parametrize("system", ["trixie"], indirect=True)
def test_apt_builds_the_module_of_kept_programs(system: System) -> None:
    """For the kernel of Debian 13, by DKMS."""
    system.apt("install", "-y", "remanence-keep-dkms", "linux-headers-amd64")
    built = sorted((system.root / "usr/lib/modules").glob("*/updates/dkms/rem_keep.ko*"))
    assert len(built) == 1, system.call("dkms", "status").stdout
