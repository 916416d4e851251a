# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two kernels for comparisons with ours, made when first needed.

unpatched   the same source, compiler and configuration without our patches and folders
debian      Debian's own binary of the same version, from this machine's package sources,
            unpacked and not installed
"""

from __future__ import annotations

import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from lab import run
from lab.errors import InfraError, RemError
from lab.paths import repo_dir
from lab.progress import step
from lab.setup import cache
from lab.setup.host import explain, need_disk, tool_version
from lab.setup.inputs import Inputs
from lab.setup.kernel import (
    Kernel,
    KernelProduct,
    Recipe,
    build,
    kernel_source_version,
    tree_lock,
)
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.stock_headers import image_package

DEBIAN_MIB = 200  # the package, and what is taken from it


@dataclass(frozen=True)
class Unpatched(Part[KernelProduct]):
    """The kernel of this checkout without our patches."""

    groups = (Group.COMPILER, Group.KERNEL)
    lane = "kernel"

    def requires(self) -> tuple[Part[KernelProduct]]:
        return (Kernel(),)

    def make(self, site: Site) -> KernelProduct:
        return _unpatched(site, site[Kernel()])


def _unpatched(site: Site, patched: KernelProduct) -> KernelProduct:
    ours = own_symbols(repo_dir())
    with_us = (patched.bz_image.parent / "config").read_text(encoding="utf-8")
    wanted = without_symbols(with_us, ours)
    source_version = kernel_source_version()
    inputs = Inputs("kernel-unpatched").add("source", source_version)
    key = inputs.add("gcc", tool_version("gcc")).add("config", wanted).key()

    def make(into: Path) -> None:
        # The whole configuration is requested, and Kconfig has to accept each line of it.
        recipe = Recipe(key, _no_overlay, wanted, "the configuration of our kernel")
        with cache.lock(tree_lock(recipe.tree)):  # it is the same tree
            build(source_version, recipe, into)

    product = KernelProduct.of(site.product("kernel-unpatched", key, make))
    got = (product.bz_image.parent / "config").read_text(encoding="utf-8")
    if difference := config_difference(with_us, got, ours):
        raise RemError(
            "the kernel without our patches has another configuration: " + ", ".join(difference)
        )
    return product


def own_symbols(repo: Path) -> set[str]:
    """Return the Kconfig symbols that only our kernel has, and those that only they select."""
    texts = [(repo / "kernel" / "Kconfig").read_text(encoding="utf-8")]
    for patch in sorted((repo / "kernel" / "patches").glob("*.patch")):
        added = re.findall(r"^\+(.*)", patch.read_text(encoding="utf-8"), re.MULTILINE)
        texts.append("\n".join(added))
    defined = r"^(?:(?:menu)?config|\s+select) (\w+)$"
    return set(re.findall(defined, "\n".join(texts), re.MULTILINE))


def without_symbols(config: str, symbols: set[str]) -> str:
    """Return the lines of a .config that set or unset any other symbol."""
    return "".join(f"{line}\n" for line in _settings(config) if _symbol(line) not in symbols)


def config_difference(one: str, other: str, symbols: set[str]) -> list[str]:
    """Return lines that only one of two .config files has, except those of *symbols*."""
    lines = set(_settings(one)) ^ set(_settings(other))
    return sorted(line for line in lines if _symbol(line) not in symbols)


@dataclass(frozen=True)
class DebianKernel:
    bz_image: Path
    config: Path
    package: str


@dataclass(frozen=True)
class PlainDebian(Part[DebianKernel]):
    """Debian's binary kernel of the version that ours is based on."""

    groups = (Group.KERNEL,)  # the version is that of our source
    lane = "fetch"

    def make(self, site: Site) -> DebianKernel:
        version = kernel_source_version()
        key = Inputs("kernel-debian").add("version", version).key()
        folder = site.product("kernel-debian", key, lambda into: _fetch_debian(version, into))
        package = (folder / "package").read_text(encoding="utf-8").strip()
        return DebianKernel(folder / "bzImage", folder / "config", package)


def _fetch_debian(version: str, into: Path) -> None:
    release, package = debian_image(version)
    need_disk(into, DEBIAN_MIB, "Debian's binary kernel")
    with step(f"kernel: fetch {package}"):
        argv = ["apt-get", "-q", "download", f"{package}={version}"]
        try:
            run.run(argv, cwd=into, what="fetching Debian's kernel")
        except InfraError as error:
            raise explain(error, "fetching Debian's kernel") from error
        (archive,) = into.glob("*.deb")
        wanted = {f"vmlinuz-{release}": "bzImage", f"config-{release}": "config"}
        _take(archive, {name: into / to for name, to in wanted.items()})
        archive.unlink()
    (into / "package").write_text(f"{package} {version}\n", encoding="utf-8")


def debian_image(version: str) -> tuple[str, str]:
    """Return the release of Debian's kernel of a version of the source, as its files are named, and
    its package."""
    upstream = version.partition("-")[0]
    argv = ["apt-cache", "pkgnames", f"linux-image-{upstream}"]
    # Neither `cloud` nor `rt`: those have one part more in their names.
    plain = re.compile(rf"linux-image-({re.escape(upstream)}(?:\+\w+)?-amd64)(?:-unsigned)?")
    names = run.run(argv, what="looking for Debian's kernel").stdout.split()
    for release in sorted({found[1] for found in map(plain.fullmatch, names) if found}):
        if package := image_package(release, version):
            return release, package
    raise InfraError(
        f"apt offers no linux-image of version {version}: run `apt-get update` as root, or "
        "`./rem setup` if it offers a newer linux-source"
    )


def _no_overlay(base: Path, into: Path) -> None:
    """Nothing differs from Debian's source."""


def _settings(config: str) -> list[str]:
    return re.findall(r"^(?:CONFIG_\w+=.*|# CONFIG_\w+ is not set)$", config, re.MULTILINE)


def _symbol(line: str) -> str:
    found = re.search(r"CONFIG_(\w+)", line)
    assert found is not None, "a line of _settings()"
    return found.group(1)


def _take(archive: Path, wanted: dict[str, Path]) -> None:
    """Copy files of its folder boot/ out of a package; not the rest, mainly modules."""
    child = run.spawn(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
    left = dict(wanted)
    try:
        assert child.stdout is not None
        with (
            open(child.stdout.fileno(), "rb", closefd=False) as source,
            tarfile.open(fileobj=source, mode="r|") as tar,
        ):
            for member in tar:
                to = left.pop(Path(member.name).name, None) if member.isfile() else None
                if to is not None and (data := tar.extractfile(member)) is not None:
                    to.write_bytes(data.read())
                if not left:
                    return
    except tarfile.TarError as error:
        raise InfraError(f"{archive.name} cannot be unpacked: {error}") from error
    finally:
        run.end(child)
    raise InfraError(f"{archive.name} has no {', '.join(left)}")
