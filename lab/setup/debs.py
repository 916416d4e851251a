# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Debian packages of this checkout, and the index by which apt installs them.

    product   CACHE/debs/KEY   NAME_VERSION_amd64.deb of each package, Packages, Release

packages/debian has what debhelper needs. The files of each package are built before and put where
they will be, below root/PACKAGE; debhelper compresses, strips and packs them. The time in all
packages is that of the last commit, so that the same commit gives the same bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from lab.commit import Commit, base_version
from lab.errors import RemError
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import run, stream
from lab.setup.inputs import Inputs
from lab.setup.keep import dkms_conf, write_dkms
from lab.setup.kernel import PACKED, Kernel
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.loader import Loader
from lab.setup.need import Part, Site
from lab.setup.off2f import Off2fModule
from lab.setup.package_tools import PackageTools
from lab.setup.packages import Group
from lab.setup.pm import Pm

LIBRARIES = "usr/lib/x86_64-linux-gnu"
SOURCES = (
    "packages", "man", "heap/man", "heap/c", "keep", "vm", "pm", "remctl/dist", "format",
    "replay/rem-replay.service",
)  # fmt: skip
# In the files of packages/debian.
KERNEL_WORD, MAINTAINER_WORD = "@KERNEL@", "@MAINTAINER@"
OF_KERNEL = "linux-image."  # the beginning of their names where the package's has the version
DKMS_PACKAGE = "remanence-keep-dkms"
SLEEP_UNITS = tuple(
    f"systemd-{way}.service"
    for way in ("suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate")
)
MAN_PAGES = {
    "remanence-tools": ("off2f.1", "pmadmin.8", "rem-replay.8", "remctl.8", "remanence.7"),
    "remanence-vm": ("rem-vm.8",),
    "remanence-keep": ("rem-keep.8",),
    "libpm-dev": ("libpm.3",),
}


@dataclass(frozen=True)
class Debs(Part[Path]):
    """The folder of the packages, which apt can use as a repository."""

    commit: Commit

    groups = (Group.PACKAGES,)

    def requires(self) -> tuple[Part[Any], ...]:
        return _parts()

    def make(self, site: Site) -> Path:
        inputs = Inputs("debs").add("version", self.commit.version).add("by", self.commit.maker)
        for part in _parts():
            inputs.add(repr(part), str(site[part]))
        for source in SOURCES:
            inputs.add_path(repo_dir() / source, source)
        inputs.add_path(Path(__file__), "debs.py")

        def build(into: Path) -> None:
            with tempfile.TemporaryDirectory(prefix="rem-debs-") as folder:
                # dpkg-buildpackage writes into the folder above its sources.
                source = Path(folder) / "remanence"
                with step("packages: files"):
                    kernel = _stage(site, source / "root")
                    _write_debian(self.commit, kernel, source / "debian")
                    control = (source / "debian" / "control").read_text(encoding="utf-8")
                    check_staged(source / "root", control)
                    _set_times(source, self.commit.time_s)
                _build(self.commit, source)
                for package in sorted(Path(folder).glob("*.deb")):
                    shutil.move(package, into / package.name)
            write_index(self.commit, into)

        return site.product("debs", inputs.key(), build)


def _parts() -> tuple[Part[Any], ...]:
    return (
        Kernel(PACKED),
        KernelHeaders(PACKED),
        Pm(variant=PACKED),
        Off2fModule(variant=PACKED),
        Loader(),
        PackageTools(),
    )


def _stage(site: Site, root: Path) -> str:
    """Put all files where the packages have them; return the version of the kernel."""
    version = _stage_kernel(site, root)
    tools, repo = site[PackageTools()], repo_dir()
    pm, man = tools / "pm", repo / "man"
    of_tools = root / "remanence-tools"
    _put(site[Loader()].with_suffix(".efi"), root / "remanence-loader/usr/lib/remanence")
    _put(tools / "off2f", of_tools / "usr/bin", 0o755)
    _put(tools / "rem-replay", of_tools / "usr/sbin", 0o755)
    units = of_tools / "lib/systemd/system"
    _put(repo / "replay" / "rem-replay.service", units)
    # In force without a word of the administrator, who has asked for it by the kernel's.
    (units / "sysinit.target.wants").mkdir()
    (units / "sysinit.target.wants/rem-replay.service").symlink_to("../rem-replay.service")
    _put(tools / "remctl", of_tools / "usr/sbin", 0o755)
    hooks = repo / "remctl" / "dist"
    for folder in ("kernel/postinst.d", "initramfs/post-update.d"):
        _put(hooks / "zz-remanence", of_tools / "etc" / folder, 0o755)
    _put(
        hooks / "zz-remanence-remove",
        of_tools / "etc/kernel/postrm.d",
        0o755,
        name="zz-remanence",
    )
    _stage_units(hooks, of_tools)
    _put(pm / "usr/sbin/pmadmin", of_tools / "usr/sbin", 0o755)
    _put(pm / "etc/udev/rules.d/60-pm.rules", of_tools / "lib/udev/rules.d")
    _put(pm / "etc/systemd/system/pm-disks.service", of_tools / "lib/systemd/system")
    completions = "usr/share/bash-completion/completions"
    _put(pm / completions / "pmadmin", of_tools / completions)
    for name in ("vm", "keep"):
        package = root / f"remanence-{name}"
        _put(tools / f"rem-{name}", package / "usr/bin", 0o755)
        _put(repo / name / f"rem-{name}.service", package / "lib/systemd/system")
    write_dkms(root / DKMS_PACKAGE)
    for package_name, pages in MAN_PAGES.items():
        for page in pages:
            _put(man / page, root / package_name / f"usr/share/man/man{page[-1]}")
    library = _put(pm / "usr/lib/libpm.so.1", root / "libpm1" / LIBRARIES)
    development = root / "libpm-dev"
    shutil.copytree(pm / "usr/include/libpm", development / "usr/include/libpm")
    (development / LIBRARIES).mkdir(parents=True)
    (development / LIBRARIES / "libpm.so").symlink_to(library.name)
    words = (pm / "usr/lib/pkgconfig/libpm.pc").read_text(encoding="utf-8")
    _put_pkg_config(words, development, "libpm.pc")
    _stage_heap(tools, root / "libnvheap-dev")
    return version


def _stage_units(dist: Path, package: Path) -> None:
    """What systemd and NUT run, and when."""
    units = package / "lib/systemd/system"
    for name in ("sleep", "ups-low"):
        _put(dist / name, package / "usr/lib/remanence", 0o755)
    for name in ("metrics", "health"):
        for kind in ("service", "timer"):
            _put(dist / f"remanence-{name}.{kind}", units)
    _put(dist / "org.remanence.remctl.policy", package / "usr/share/polkit-1/actions")
    for unit in SLEEP_UNITS:
        _put(dist / "remanence-sleep.conf", units / f"{unit}.d", name="remanence.conf")
    _put(dist / "remanence-logind.conf", units / "systemd-logind.service.d", name="remanence.conf")


def _stage_kernel(site: Site, root: Path) -> str:
    kernel, headers = site[Kernel(PACKED)], site[KernelHeaders(PACKED)]
    version, folder = kernel.version, kernel.bz_image.parent
    image, boot = root / f"linux-image-{version}", root / f"linux-image-{version}" / "boot"
    modules = image / "lib/modules" / version
    for name, place in (("bzImage", "vmlinuz"), ("System.map", "System.map"), ("config", "config")):
        _put(folder / name, boot, name=f"{place}-{version}")
    shutil.copytree(kernel.modules, modules)
    found = [*site[Pm(variant=PACKED)].modules, site[Off2fModule(variant=PACKED)].module]
    for module in found:
        _put(module, modules / "extra")
    with (modules / "modules.order").open("a", encoding="utf-8") as order:
        order.writelines(f"extra/{module.name}\n" for module in found)
    place = f"usr/src/linux-headers-{version}"
    package = root / f"linux-headers-{version}"
    ignored = shutil.ignore_patterns(".gitignore")
    shutil.copytree(headers, package / place, symlinks=True, ignore=ignored)
    link = package / "lib/modules" / version / "build"
    link.parent.mkdir(parents=True)
    link.symlink_to(f"/{place}")
    return version


def _stage_heap(tools: Path, package: Path) -> None:
    repo = repo_dir()
    _put(tools / "libnvheap.a", package / LIBRARIES)
    _put(repo / "heap/c/include/nvheap.h", package / "usr/include")
    text = (repo / "heap/c/nvheap.pc.in").read_text(encoding="utf-8")
    text = text.replace("@prefix@", "/usr").replace("@version@", base_version())
    _put_pkg_config(text, package, "nvheap.pc")
    for page in sorted((repo / "heap/man").iterdir()):
        if page.suffix in (".3", ".7"):
            _put(page, package / f"usr/share/man/man{page.suffix[1]}")


def _put(source: Path, folder: Path, mode: int = 0o644, name: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / (name or source.name)
    shutil.copyfile(source, target)
    target.chmod(mode)
    return target


def _put_pkg_config(text: str, package: Path, name: str) -> None:
    """What a program that uses the library is built with, where Debian has libraries."""
    text = text.replace("libdir=${prefix}/lib\n", f"libdir=/{LIBRARIES}\n")
    _put_text(text, package / LIBRARIES / "pkgconfig" / name)


def _put_text(text: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    target.chmod(0o644)


def _write_debian(commit: Commit, kernel: str, folder: Path) -> None:
    for source in sorted((repo_dir() / "packages" / "debian").iterdir()):
        name = source.name
        if name.startswith(OF_KERNEL):
            name = f"linux-image-{kernel}.{name.removeprefix(OF_KERNEL)}"
        text = source.read_text(encoding="utf-8").replace(KERNEL_WORD, kernel)
        _put_text(text.replace(MAINTAINER_WORD, commit.maker), folder / name)
        (folder / name).chmod(0o755 if name == "rules" else 0o644)
    _put_text(dkms_conf(), folder / f"{DKMS_PACKAGE}.dkms")
    _put_text("3.0 (native)\n", folder / "source/format")
    time = format_datetime(datetime.fromtimestamp(commit.time_s, UTC))
    entry = f"remanence ({commit.version}) unstable; urgency=medium"
    _put_text(
        f"{entry}\n\n  * Commit {commit.digest}.\n\n -- {commit.maker}  {time}\n",
        folder / "changelog",
    )


def check_staged(root: Path, control: str) -> None:
    """Check that each folder below *root* is a package of *control*, or else raise."""
    packages = set(re.findall(r"^Package: (\S+)$", control, re.MULTILINE))
    for folder in sorted(root.iterdir()):
        if folder.name not in packages:
            raise RemError(
                f"packages/debian/control has no package {folder.name}, for which there are files"
            )


def _set_times(folder: Path, time_s: int) -> None:
    """dpkg keeps times that are before the commit's, as those of a kept product may be."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time_s, time_s), follow_symlinks=False)


def _build(commit: Commit, source: Path) -> None:
    env = {
        "SOURCE_DATE_EPOCH": str(commit.time_s),
        "DEB_BUILD_OPTIONS": f"noautodbgsym parallel={os.cpu_count() or 1}",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    log = cache_dir() / "logs" / "debs.log"
    # -d: what they are built with are this project's own products.
    argv = ["dpkg-buildpackage", "-b", "-us", "-uc", "-d"]
    with step("packages: pack"):
        stream(argv, cwd=source, env=env, log=log, what="making the Debian packages")


def write_index(commit: Commit, folder: Path) -> None:
    """Write the index of a repository with one folder."""
    packages = run(["apt-ftparchive", "packages", "."], cwd=folder, what="the index of packages")
    (folder / "Packages").write_text(packages.stdout, encoding="utf-8")
    time = format_datetime(datetime.fromtimestamp(commit.time_s, UTC))
    words = {"Origin": "Remanence", "Label": "Remanence", "Suite": "remanence"}
    options = [
        word
        for key, value in words.items()
        for word in ("-o", f"APT::FTPArchive::Release::{key}={value}")
    ]
    argv = ["apt-ftparchive", *options, "release", "."]
    release = run(argv, cwd=folder, what="the index of packages").stdout
    lines = [f"Date: {time}" if line.startswith("Date: ") else line
             for line in release.splitlines()]  # fmt: skip
    (folder / "Release").write_text("\n".join(lines) + "\n", encoding="utf-8")
